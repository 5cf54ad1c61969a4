"""A retrieval server as a retriever."""
