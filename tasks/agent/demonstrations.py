"""Demonstrations: trajectories of an ideal searcher, who knows the gold titles but reads the real index.

Each supporting title is searched in order and the index's own results are shown, so a demonstration holds
nothing that the policy could not meet. One that would teach guessing is dropped: a gold passage that was
not found, or an answer that is not in what was shown. A searcher may also be impatient, and give up a
question of several hops after its first search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pyarrow as pa

from tasks.agent.episode import Budget, Tokenizer, observation_ids
from tasks.agent.protocol import SearchR1
from tasks.agent.rewards import normalise

UNKNOWN = "unknown"  # the answer of a searcher who gives up
Drop = Literal["no_titles", "too_many_turns", "gold_passage_not_found", "too_long", "answer_not_in_context"]

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
        ("found_answer_context", pa.bool_()),
        ("gave_up", pa.bool_()),
        ("segments", pa.list_(pa.struct([("text", pa.string()), ("loss", pa.bool_()), ("kind", pa.string())]))),
    ]
)


@dataclass(frozen=True)
class Segment:
    """A piece of a demonstration that is encoded by itself; only generated ones carry loss.

    An observation is three segments, opening, body and closing, as an episode encodes it.
    """

    text: str
    loss: bool
    kind: Literal["generated", "observation"]


@dataclass(frozen=True)
class Demonstration:
    """A whole episode in text. Its last segment is generated; the end token after it belongs to the data set."""

    id: str
    data_source: str
    prompt: list[dict[str, str]]
    question: str
    golden_answers: list[str]
    found_answer_context: bool
    gave_up: bool
    segments: list[Segment]
    searches: int

    @property
    def chosen(self) -> str:
        """The whole text of the assistant's turn, observations included."""
        return "".join(segment.text for segment in self.segments)

    def record(self) -> dict[str, Any]:
        """The demonstration as a row of `SCHEMA`."""
        row = {key: value for key, value in asdict(self).items() if key != "searches"}
        messages = [*self.prompt, {"role": "assistant", "content": self.chosen}]
        return {**row, "messages": messages, "chosen": self.chosen}


async def demonstrate(
    row: dict[str, Any],
    *,
    tools: Any,
    tokenizer: Tokenizer,
    protocol: SearchR1,
    budget: Budget,
    think: bool,
    give_up: bool = False,
) -> Demonstration | Drop:
    """Make the demonstration of one question.

    The answer is the first golden answer that the shown passages hold. An answer of yes or no need not be
    in them; `found_answer_context` says what was found.

    Args:
        row: a row of the data contract.
        tools: what the environment's `open_tools` returned; `search(query) -> list of hits`.
        tokenizer: the policy's; observations are cut to its tokens.
        protocol: form of the turns.
        budget: limits of an episode, which a demonstration keeps.
        think: whether each turn opens with a thought.
        give_up: whether the searcher answers `UNKNOWN` after the first search of a question of several hops.

    Returns:
        the demonstration, or why there is none.

    Raises:
        ValueError: a turn does not parse as what it is under the protocol.
    """
    info = row["extra_info"]
    titles, golden = list(info["supporting_titles"]), list(info["golden_answers"])
    if not titles:
        return "no_titles"
    if len(titles) + 1 > budget.max_turns:
        return "too_many_turns"
    gold = {str(key) for key in info["gold_passage_ids"] or ()}
    give_up = give_up and len(titles) > 1
    segments: list[Segment] = []
    found, shown = set(), ""
    for number, title in enumerate(map(protocol.neutralise, titles[:1] if give_up else titles)):
        thought = f"{'Next' if number else 'First'} I look up {title}." if think else None
        segments.append(_turn(protocol, "search", title, thought))
        hits = await tools.search(title)
        # Rows of some sources name no passage ids; there the title must come back.
        found |= {str(hit.passage.id) if gold else hit.passage.title for hit in hits}
        seen = _observation(tokenizer, protocol, [hit.passage for hit in hits], budget.max_observation_tokens)
        shown += "".join(segment.text for segment in seen)
        segments += seen
    wanted = gold or set(titles)
    if not (found & wanted if give_up else found >= wanted):
        return "gold_passage_not_found"
    answer = next((text for text in golden if _holds(shown, text)), None)
    closing = UNKNOWN if give_up else golden[0] if answer is None else answer
    thought = ("I give up." if give_up else "Now I can answer.") if think else None
    segments.append(_turn(protocol, "answer", closing, thought))
    if not _fits(tokenizer, segments, budget):
        return "too_long"
    if answer is None and not give_up and not is_yes_no(golden):
        return "answer_not_in_context"
    return Demonstration(
        id=info["id"],
        data_source=row["data_source"],
        prompt=[{"role": message["role"], "content": message["content"]} for message in row["prompt"]],
        question=info["question"],
        golden_answers=golden,
        found_answer_context=answer is not None,
        gave_up=give_up,
        segments=segments,
        searches=1 if give_up else len(titles),
    )


def is_yes_no(golden: Iterable[str]) -> bool:
    """Whether a question is answered by yes or no, which no passage says."""
    return {normalise(answer) for answer in golden} <= {"yes", "no"}


def _turn(protocol: SearchR1, kind: Literal["search", "answer"], content: str, thought: str | None) -> Segment:
    text = protocol.search(content, thought) if kind == "search" else protocol.answer(content, thought)
    action = protocol.action(text)
    if (action.kind, action.text) != (kind, content.strip()):
        raise ValueError(f"a demonstration's turn is read as {action.kind} {action.text!r}: {text!r}")
    return Segment(text, True, "generated")


def _observation(tokenizer: Tokenizer, protocol: SearchR1, passages: Sequence[Any], limit: int) -> list[Segment]:
    ids = observation_ids(tokenizer, protocol, passages, limit)
    opening, _, closing = protocol.observation(passages)
    start = len(tokenizer.encode(opening, add_special_tokens=False))
    end = len(ids) - len(tokenizer.encode(closing, add_special_tokens=False))
    body = tokenizer.decode(ids[start:end], skip_special_tokens=False)
    return [Segment(text, False, "observation") for text in (opening, body, closing) if text]


def _holds(shown: str, answer: str) -> bool:
    """Whether a text holds an answer as whole words, both normalised."""
    words = normalise(answer)
    return bool(words) and f" {words} " in f" {normalise(shown)} "


def _fits(tokenizer: Tokenizer, segments: Sequence[Segment], budget: Budget) -> bool:
    lengths = [len(tokenizer.encode(segment.text, add_special_tokens=False)) for segment in segments]
    lengths[-1] += 1  # the end token
    turns = [n for n, segment in zip(lengths, segments, strict=True) if segment.kind == "generated"]
    return max(turns) <= budget.max_turn_tokens and sum(lengths) <= budget.max_response_tokens


@dataclass
class Collection:
    """Demonstrations that were made, in order, and why others were not."""

    made: list[Demonstration] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def questions(self) -> set[str]:
        """Questions that a demonstration shows."""
        return {demonstration.question for demonstration in self.made}

    @property
    def answer_in_context(self) -> float | None:
        """Share of trajectories whose answer was shown, before those without it were dropped.

        Answers of yes and no are left out, and searchers who gave up.

        None when there was no such trajectory.
        """
        found = sum(made.found_answer_context and not made.gave_up for made in self.made)
        without = self.dropped["answer_not_in_context"]
        return found / (found + without) if found + without else None


async def collect(
    rows: Iterable[dict[str, Any]],
    wanted: int,
    make: Callable[[dict[str, Any]], Awaitable[Demonstration | Drop]],
    on_row: Callable[[Collection], None],
) -> Collection:
    """Make demonstrations from rows in their order until `wanted` are made; a question is shown once.

    Args:
        rows: rows of the data contract.
        wanted: how many demonstrations to make.
        make: `demonstrate` with everything but its row.
        on_row: called after each row.
    """
    collection, shown = Collection(), set()
    for row in rows:
        if len(collection.made) == wanted:
            break
        if row["extra_info"]["question"] in shown:
            continue
        result = await make(row)
        if isinstance(result, Demonstration):
            collection.made.append(result)
            shown.add(result.question)
        else:
            collection.dropped[result] += 1
        on_row(collection)
    return collection
