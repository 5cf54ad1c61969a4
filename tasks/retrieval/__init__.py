"""Retrieval: BM25 and a lexical faiss index behind one interface, recall against gold passages.

`load(index, retrieval)` opens what `build.py` wrote; everything else in this room serves these names.
"""

from tasks.retrieval.passages import Passage
from tasks.retrieval.retriever import Hit, Retriever, load

__all__ = ["Hit", "Passage", "Retriever", "load"]
