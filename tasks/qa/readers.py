"""Readers: one function for each form in which questions and passages come.

A reader gives `Question` and `Passage` records or refuses the file with its name and the line or row.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from tasks.errors import InputError
from tasks.params import FileSource
from tasks.qa.records import Passage, Question

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Id = Annotated[_Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]


class _Row(BaseModel):
    """A row of a foreign file: its further keys are nobody's business."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


_RowType = TypeVar("_RowType", bound=_Row)


class _QuestionRow(_Row):
    id: _Id
    question: _Text
    golden_answers: Annotated[list[_Text], Field(min_length=1)]
    data_source: _Text | None = None
    hops: Annotated[int, Field(ge=1)] | None = None
    supporting_titles: list[_Text] = []
    gold_passage_ids: list[_Id] = []


class _HotpotQARow(_Row):
    id: Annotated[_Id, Field(alias="_id")]
    question: _Text
    answer: _Text
    # A JSON array is a list in Python, which strict mode would not take for a tuple.
    supporting_facts: list[Annotated[tuple[_Text, int], Field(strict=False)]]
    context: list[Annotated[tuple[_Text, list[str]], Field(strict=False)]]

    @property
    def supporting(self) -> dict[str, list[str]]:
        """Each supporting title, in order, with those of its supporting sentences that the context holds."""
        sentences = dict(self.context)
        found: dict[str, list[str]] = {}
        for title, number in self.supporting_facts:
            found.setdefault(title, []).extend(sentences.get(title, [])[number : number + 1])
        return found


class _PassageRow(_Row):
    id: _Id
    text: _Text
    title: str
    url: str | None = None


class _ContentsRow(_Row):
    id: _Id
    contents: _Text


def _one_space(text: str) -> str:
    return " ".join(text.split())


class Corpus:
    """Passages by id and by title, in their order."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = list(passages)
        self.ids = {passage.id for passage in passages}
        self._by_title: dict[str, list[Passage]] = {}
        for passage in passages:
            self._by_title.setdefault(passage.title, []).append(passage)

    def supporting(self, title: str, sentences: Sequence[str]) -> Passage | None:
        """The passage of a title, and where a title has several, the first that holds one of the sentences."""
        titled = self._by_title.get(title, [])
        if len(titled) == 1:
            return titled[0]
        wanted = [_one_space(sentence) for sentence in sentences]
        return next((p for p in titled if any(sentence in _one_space(p.text) for sentence in wanted)), None)


@dataclass(frozen=True)
class Loaded:
    """What a question file holds: its questions, and the passages it brings itself."""

    questions: list[Question]
    passages: list[Passage]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines, from 1, of a text file or of a gzip file (by its ending); blank ones are left out.

    Raises:
        InputError: the path is missing, or the file is damaged or not UTF-8.
    """
    if not path.is_file():
        raise InputError("no such file", where=str(path), mend="see ingest.data_dir and the paths below it")
    open_text = gzip.open if path.suffix == ".gz" else open
    try:
        with open_text(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"damaged gzip file: {error}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason} at byte {error.start}", where=str(path)) from None


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        try:
            yield where, json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"not JSON: {error.msg} at column {error.colno}", where=where) from None


def _json_array(path: Path) -> Iterator[tuple[str, Any]]:
    text = "".join(line for _, line in _lines(path))
    try:
        content = json.loads(text) if text else []
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} at character {error.pos}", where=str(path)) from None
    if not isinstance(content, list):
        raise InputError("must be a JSON array of questions", where=str(path))
    for number, row in enumerate(content, start=1):
        yield f"{path}, row {number}", row


def _check(model: type[_RowType], row: Any, where: str) -> _RowType:
    """A row as its model.

    Raises:
        InputError: a key is missing, empty or of the wrong type.
    """
    if not isinstance(row, dict):
        raise InputError("must be an object with keys", where=where)
    try:
        return model.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
    key, kind = ".".join(map(str, first["loc"])), first["type"]
    answers = first["loc"][0] in ("golden_answers", "answer")
    if kind == "missing":
        raise InputError(f"key {key!r} is missing", where=where)
    if kind in ("too_short", "string_too_short"):
        raise InputError(f"{key}: a question without an answer" if answers else f"{key}: is empty", where=where)
    raise InputError(f"{key}: {first['msg']}, got {type(first['input']).__name__}", where=where)


def _filled(rows: Iterator[tuple[str, Any]], path: Path, limit: int | None) -> Iterator[tuple[str, Any]]:
    """The first `limit` rows; a file without any is refused."""
    first = next(rows, None)
    if first is None:
        raise InputError("the file holds no rows", where=str(path))
    return itertools.islice(itertools.chain([first], rows), limit)


def read_jsonl(source: FileSource, path: Path, corpus: Corpus | None) -> Loaded:
    """Unified rows, one JSON object a line.

    `{id, question, golden_answers[], data_source?, hops?, supporting_titles[]?, gold_passage_ids[]?}`; without
    `hops` it is the number of gold passages or titles, whichever is larger, and at least 1.
    """
    questions = []
    for where, content in _filled(_json_lines(path), path, source.limit):
        row = _check(_QuestionRow, content, where)
        questions.append(
            Question(
                id=row.id,
                data_source=row.data_source or source.name,
                question=row.question,
                golden_answers=tuple(row.golden_answers),
                hops=row.hops or max(1, len(row.gold_passage_ids), len(row.supporting_titles)),
                supporting_titles=tuple(row.supporting_titles),
                gold_passage_ids=tuple(row.gold_passage_ids),
                origin=where,
            )
        )
    return Loaded(questions, [])


def read_hotpotqa(source: FileSource, path: Path, corpus: Corpus | None) -> Loaded:
    """HotpotQA's official JSON: an array of `{_id, question, answer, supporting_facts, context}`.

    Without a corpus the paragraphs of `context` become passages, under an id made of their content, so that a
    paragraph that several questions bring is one passage. Gold passages are found by title; among several
    passages of a title it is the one that holds a supporting sentence.
    Source: Yang et al., "HotpotQA" (2018), and the data's own site.
    """
    questions, passages = [], {}
    for where, content in _filled(_json_array(path), path, source.limit):
        row = _check(_HotpotQARow, content, where)
        own = [_paragraph(title, sentences) for title, sentences in row.context]
        if corpus is None:
            passages.update({passage.id: passage for passage in own})
        searched = corpus or Corpus(own)
        gold = []
        for title, sentences in row.supporting.items():
            passage = searched.supporting(title, sentences)
            if passage is None:
                raise InputError(f"question {row.id!r}: no passage for its supporting title {title!r}", where=where)
            gold.append(passage.id)
        questions.append(
            Question(
                id=row.id,
                data_source=source.name,
                question=row.question,
                golden_answers=(row.answer,),
                hops=max(1, len(row.supporting)),
                supporting_titles=tuple(row.supporting),
                gold_passage_ids=tuple(gold),
                origin=where,
            )
        )
    return Loaded(questions, list(passages.values()))


def _paragraph(title: str, sentences: Sequence[str]) -> Passage:
    text = _one_space("".join(sentences))
    return Passage(hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16], title, text)


READERS: Mapping[str, Callable[[FileSource, Path, Corpus | None], Loaded]] = {
    "jsonl": read_jsonl,
    "hotpotqa": read_hotpotqa,
}


def read_corpus(path: Path) -> list[Passage]:
    """Passages, one JSON object a line: `{id, title, text, url?}`, or `{id, contents}` as Search-R1 has it.

    `contents` is the title in double quotes, a line break, and the text.

    Raises:
        InputError: the file is missing, empty or damaged, a row is wrong, or an id comes twice.
    """
    passages: dict[str, Passage] = {}
    for where, content in _filled(_json_lines(path), path, None):
        if isinstance(content, dict) and "contents" in content:
            whole = _check(_ContentsRow, content, where)
            title, _, text = whole.contents.partition("\n")
            passage = Passage(whole.id, title.strip().strip('"'), text.strip())
        else:
            row = _check(_PassageRow, content, where)
            passage = Passage(row.id, row.title, row.text, row.url)
        if passage.id in passages:
            raise InputError(f"passage id {passage.id!r} comes twice", where=where)
        passages[passage.id] = passage
    return list(passages.values())


def sha256(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
