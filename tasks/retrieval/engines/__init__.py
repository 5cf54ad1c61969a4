"""What ranks the passages of an index: BM25, vectors in faiss, and both fused."""
