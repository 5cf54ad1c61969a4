"""Questions and passages: the generated world, readers of files, rows, mixing, and what is expected of them."""
