"""Retrieval: BM25, dense and hybrid search, a service and its client, remote back ends, recall against gold passages.

`open_retriever(index, retrieval)` opens what the section `retrieval` names; everything else in this room serves it.
"""

from tasks.retrieval.index.passages import Passage
from tasks.retrieval.retriever import Hit, Retriever, open_retriever

__all__ = ["Hit", "Passage", "Retriever", "open_retriever"]
