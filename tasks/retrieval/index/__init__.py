"""The index folder: built, kept whole, opened."""
