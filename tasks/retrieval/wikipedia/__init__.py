"""Wikipedia's own search as a retriever, over its API and with its manners: few calls, one at a time, each kept.

What comes back is the beginning of each article, before its first heading. `python -m tasks.try_tool` tries it.
"""

from tasks.retrieval.wikipedia.searching import Wikipedia, open_wikipedia

__all__ = ["Wikipedia", "open_wikipedia"]
