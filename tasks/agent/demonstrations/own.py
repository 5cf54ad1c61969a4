"""Demonstrations that the user brings, each checked as if it were played now.

Its searches are made again: what it shows must be what the index returns. Its generated text is kept; observations
become those of an episode, white space included. The prompt that is trained on is the episode's own, so that the
policy learns under the words with which it is asked later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tasks.agent.demonstrations.form import Demonstration, Segment, fits, found_answer
from tasks.agent.demonstrations.held_out import HeldOut
from tasks.agent.demonstrations.own_rows import OWN, Row, brief, parse, turns
from tasks.agent.demonstrations.script import Script
from tasks.agent.episode import Setup
from tasks.agent.protocols import SearchR1
from tasks.agent.rewards import exact_match
from tasks.errors import InputError
from tasks.qa import near
from tasks.qa.comparing import question_key
from tasks.qa.reading import RowError
from tasks.qa.reading.json_text import json_lines
from tasks.qa.reading.opening import no_rows
from tasks.qa.records import Fault

_MENDS = {
    "observation": "make it again over this corpus with these retrieval settings",
    "held_out": "take it out: what measures must not be learnt",
    "repeated": "keep one of them",
    "too_long": "see the token budgets of episode",
    "too_many_turns": "see episode.max_turns",
}
_AROUND = 30  # characters shown before the first difference of two texts, and twice as many after it


@dataclass
class Own:
    """What the user's files gave.

    Attributes:
        rows: rows there were, faulty ones included.
        taken: demonstrations, each with its file and line. Its hops are its searches, at least 1.
        faulty: number of faulty rows by reason.
        first: the first faulty row that was met.
    """

    rows: int = 0
    taken: list[tuple[str, Demonstration]] = field(default_factory=list)
    faulty: Counter[str] = field(default_factory=Counter)
    first: Fault | None = None

    def refuse(self, where: str, error: RowError) -> None:
        """Count a faulty row."""
        self.faulty[error.reason] += 1
        self.first = self.first or Fault(where, error.reason, error.message)


async def read_own(
    files: Sequence[Path],
    *,
    max_faulty: float,
    held_out: HeldOut,
    prompt: Callable[[str], list[dict[str, str]]],
    max_prompt_tokens: int,
    setup: Setup,
) -> Own:
    """Read and check demonstration files.

    Args:
        files: JSON lines, as `own_rows` says.
        max_faulty: share of the rows that may be faulty; they are left out and counted.
        held_out: questions of the splits that measure.
        prompt: the environment's messages that pose a question.
        max_prompt_tokens: limit of these, in tokens.
        setup: what an episode would be played with.

    Raises:
        InputError: a file is missing or empty, more rows are faulty than may be, of which it names the first, or
            the protocol is another than theirs.
        UnavailableError: the search cannot be had now.
    """
    if not isinstance(setup.protocol, SearchR1) or setup.protocol.name != SearchR1.name:
        raise InputError(
            f"demonstrations of your own are in the form of search-r1, and episode.protocol is {setup.protocol.name}",
            where="demos.files",
            mend="leave it empty, or choose that protocol",
        )
    own = Own()
    parsed: list[tuple[str, Row, str]] = []
    for path in files:
        before = own.rows
        for where, content in json_lines(path):
            own.rows += 1
            try:
                if isinstance(content, RowError):
                    raise content
                row, chosen = parse(content)
                if (length := len(setup.chat.prompt_ids(prompt(row.question)))) > max_prompt_tokens:
                    raise RowError("too_long", f"question: its prompt has {length} tokens, not {max_prompt_tokens}")
            except RowError as error:
                own.refuse(where, error)
            else:
                parsed.append((where, row, chosen))
        if own.rows == before:
            raise no_rows(path)
    rows = [row for _, row, _ in parsed]
    texts = near.Texts([row.question for row in rows], [row.golden_answers for row in rows], [()] * len(rows))
    held = held_out.asked(texts)
    seen: dict[bytes, str] = {}
    for number, (where, row, chosen) in enumerate(parsed):
        try:
            if number in held:
                other = held[number].where
                raise RowError("held_out", f"question: {brief(row.question)} is in a split that measures: {other}")
            first = seen.setdefault(question_key(row.question), where)
            if first != where:
                raise RowError("repeated", f"question: {brief(row.question)} comes twice, first at {first}")
            segments, shown = await _played(row, chosen, setup, setup.protocol)
        except RowError as error:
            own.refuse(where, error)
            continue
        searches = sum(segment.kind == "generated" for segment in segments) - 1
        made = Demonstration(
            id=row.id or where,
            data_source=row.data_source,
            prompt=prompt(row.question),
            question=row.question,
            golden_answers=row.golden_answers,
            hops=max(1, searches),
            query_policy=OWN,
            found_answer_context=found_answer(shown, row.golden_answers) is not None,
            gave_up=False,
            segments=segments,
            searches=searches,
        )
        own.taken.append((where, made))
    _refuse_too_many(own, max_faulty)
    return own


def _refuse_too_many(own: Own, max_faulty: float) -> None:
    faulty = own.faulty.total()
    if own.first is None or faulty <= max_faulty * own.rows:
        return
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(own.faulty.items()))
    raise InputError(
        f"{own.first.message} (faulty: {faulty} of {own.rows} demonstrations: {counts})",
        where=own.first.origin,
        mend=f"{_MENDS.get(own.first.reason, 'mend the row')}, or raise demos.max_faulty, {max_faulty:g}",
    )


async def _played(row: Row, chosen: str, setup: Setup, protocol: SearchR1) -> tuple[list[Segment], str]:
    """Segments as an episode would have them, and all that they show."""
    generated, claims = turns(chosen, protocol)
    most = setup.budget.max_turns
    if len(generated) > most:
        raise RowError("too_many_turns", f"chosen: {len(generated)} turns, an episode has {most}")
    async with Script(setup) as script:
        for number, turn in enumerate(generated, start=1):
            action = protocol.action(turn)
            last = number == len(generated)
            if action.kind != ("answer" if last else "calls"):
                wanted = "answer" if last else "search"
                raise RowError(
                    "tags", f"chosen: turn {number} does not end with its {wanted}: {turn[-2 * _AROUND :]!r}"
                )
            if last:
                script.answer(turn)
                break
            query = action.calls[0].text
            if not query:
                raise RowError("tags", f"chosen: turn {number} does not end with its search: it asks for nothing")
            if not await script.call(turn, action.calls):
                raise RowError("search_failed", f"chosen: the search for {brief(query)} has failed")
            if (difference := _difference(claims[number - 1], script.shown[-1])) is not None:
                raise RowError("observation", f"chosen: not what the index returns for {brief(query)}: {difference}")
    if not exact_match(action.text, row.golden_answers):
        raise RowError("wrong_answer", f"chosen: answers {brief(action.text)}, none of golden_answers")
    if not fits(setup.chat.tokenizer, script.segments, setup.budget):
        raise RowError("too_long", "chosen: a turn, or the whole, is longer than an episode's")
    return script.segments, "\n".join(script.shown)


def _difference(claimed: str, body: str) -> str | None:
    """Where two texts first differ but for white space, None where they don't."""
    one, other = ("".join(text.split()) for text in (claimed, body))
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    place = next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
    return " instead of ".join(repr(_excerpt(text, max(0, place - _AROUND))) for text in (claimed, body))


def _excerpt(text: str, place: int) -> str:
    """A piece of a text from the character at `place`, white space not counted, in one line."""
    start = [number for number, character in enumerate(text) if not character.isspace()][place:][:1]
    return " ".join(text[start[0] :].split())[: 3 * _AROUND] if start else ""
