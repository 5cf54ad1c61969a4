"""The form of a demonstration: Search-R1's SFT row, and segments that are encoded as an episode encodes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pyarrow as pa

from tasks.agent.budget import Budget
from tasks.agent.chat import Tokenizer
from tasks.agent.rewards import YES_NO, holds_answer, normalise

Drop = Literal[
    "no_titles",
    "no_keywords",
    "yes_no_answer",
    "too_many_turns",
    "not_in_form",
    "search_failed",
    "gold_passage_not_found",
    "too_long",
    "answer_not_in_context",
]

_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("data_source", pa.string()),
        ("prompt", _MESSAGES),
        ("messages", _MESSAGES),
        ("chosen", pa.string()),
        ("question", pa.string()),
        ("golden_answers", pa.list_(pa.string())),
        ("hops", pa.int64()),
        ("query_policy", pa.string()),
        ("found_answer_context", pa.bool_()),
        ("gave_up", pa.bool_()),
        ("segments", pa.list_(pa.struct([("text", pa.string()), ("loss", pa.bool_()), ("kind", pa.string())]))),
    ]
)


def table(demonstrations: Sequence[Demonstration], schemas: Sequence[dict[str, Any]]) -> pa.Table:
    """Demonstrations as rows of `SCHEMA`.

    Args:
        schemas: the tools, where the protocol gives them to the chat template: the same column `tools` in every row.
    """
    rows = pa.Table.from_pylist([demonstration.record() for demonstration in demonstrations], schema=SCHEMA)
    if not schemas:
        return rows
    return rows.append_column("tools", pa.array([json.dumps(list(schemas))] * len(rows), pa.string()))


@dataclass(frozen=True)
class Segment:
    """A piece of a demonstration that is encoded by itself; only generated ones carry loss.

    An observation is several segments, the bodies and what stands around them, as an episode encodes it.
    """

    text: str
    loss: bool
    kind: Literal["generated", "observation"]


@dataclass(frozen=True)
class Demonstration:
    """A whole episode in text. Its last segment is generated; the end token after it belongs to the data set.

    `query_policy` says what was searched (`queries.POLICIES`), or that the user brought it (`own`). The number of
    searches and the gold passages, where they are known, are not written.
    """

    id: str
    data_source: str
    prompt: list[dict[str, str]]
    question: str
    golden_answers: list[str]
    hops: int
    query_policy: str
    found_answer_context: bool
    gave_up: bool
    segments: list[Segment]
    searches: int
    gold_passage_ids: tuple[str, ...] = ()

    @property
    def chosen(self) -> str:
        """The whole text of the assistant's turn, observations included."""
        return "".join(segment.text for segment in self.segments)

    def record(self) -> dict[str, Any]:
        """The demonstration as a row of `SCHEMA`."""
        row = {key: value for key, value in asdict(self).items() if key in SCHEMA.names}
        messages = [*self.prompt, {"role": "assistant", "content": self.chosen}]
        return {**row, "messages": messages, "chosen": self.chosen}


def is_yes_no(golden: Iterable[str]) -> bool:
    """Whether a question is answered by yes or no, which no passage says."""
    return {normalise(answer) for answer in golden} <= YES_NO


def found_answer(shown: str, golden: Sequence[str]) -> str | None:
    """The first golden answer that a text holds as whole words, both normalised; None for one of yes or no."""
    if is_yes_no(golden):
        return None
    text = normalise(shown)
    return next((answer for answer in golden if holds_answer(text, answer)), None)


def fits(tokenizer: Tokenizer, segments: Sequence[Segment], budget: Budget) -> bool:
    """Whether an episode could hold these segments and the end token, turn by turn and in all."""
    lengths = [len(tokenizer.encode(segment.text, add_special_tokens=False)) for segment in segments]
    lengths[-1] += 1  # the end token
    turns = [n for n, segment in zip(lengths, segments, strict=True) if segment.kind == "generated"]
    return max(turns) <= budget.max_turn_tokens and sum(lengths) <= budget.max_response_tokens
