"""Passages by their titles: how a question set that names titles finds its gold passages in a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tasks.qa.records import Passage


def one_space(text: str) -> str:
    """A text whose words are one space apart."""
    return " ".join(text.split())


class Corpus:
    """Passages by title, in their order."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._by_title: dict[str, list[Passage]] = {}
        for passage in passages:
            self._by_title.setdefault(passage.title, []).append(passage)

    def supporting(self, title: str, sentences: Sequence[str]) -> Passage | None:
        """The passage of a title, and where a title has several, the first that holds one of the sentences.

        A title's only passage is taken whatever it says: a corpus of another year words an article otherwise.
        """
        titled = self._by_title.get(title, [])
        return titled[0] if len(titled) == 1 else _holding(titled, sentences)

    def paragraph(self, title: str, text: str) -> Passage | None:
        """The first passage of a title that holds a paragraph word for word."""
        return _holding(self._by_title.get(title, []), [text])


def _holding(passages: Iterable[Passage], texts: Iterable[str]) -> Passage | None:
    wanted = [one_space(text) for text in texts]
    return next((one for one in passages if any(text in one_space(one.text) for text in wanted)), None)
