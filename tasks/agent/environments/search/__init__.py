"""Questions that are answered by searching a corpus."""
