"""The words by which BM25 indexes and finds a text: one rule for passages and queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

# Lucene's English stop words, as bm25s has them.
STOP_WORDS = frozenset(
    """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
    was will with
    """.split()  # noqa: SIM905 (a list of them fills a page)
)
_WORD = re.compile(r"\w+")


class Words:
    """Words in lower case, without accents, without stop words, and stemmed where that is asked for.

    Args:
        stemmer: None, or `english`: Snowball's, the successor of Porter's (Porter, 2001).
    """

    def __init__(self, stemmer: str | None) -> None:
        self._stem: Callable[[str], str] | None = None
        if stemmer is not None:
            import Stemmer

            # Without its cache: who looks words up keeps the stems.
            self._stem = Stemmer.Stemmer(stemmer, 0).stemWord

    def split(self, text: str) -> list[str]:
        """The words of a text as they are said, stop words among them."""
        if not text.isascii():
            text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        return _WORD.findall(text.lower())

    def form(self, word: str) -> str | None:
        """What stands for a word in the index; None where nothing does."""
        if word in STOP_WORDS:
            return None
        if self._stem is None:
            return word
        # What is left of an English 's, which the stemmer takes off where it sees it.
        return None if word == "s" else self._stem(word)

    def __call__(self, text: str) -> list[str]:
        """The index words of a text."""
        return [form for word in self.split(text) if (form := self.form(word)) is not None]
