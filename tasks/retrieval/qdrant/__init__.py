"""Qdrant: the dense part's vectors and whole passages in a collection, in the index folder or on a cluster.

Both are the same client and the same points; a point's id is its passage's row. Vectors have length 1, so their inner
product is the cosine, and Qdrant need not normalise them again. Embedded, every vector is compared (exact); a cluster
searches by its own HNSW. Embedded mode is Python in this process, with the collection in memory and a lock on its
folder: it is there for trying Qdrant out, on small corpora. Its files hold pickles: open only what you built yourself.
"""

from tasks.retrieval.qdrant.building import build
from tasks.retrieval.qdrant.searching import Qdrant, open_qdrant

__all__ = ["Qdrant", "build", "open_qdrant"]
