"""Making demonstrations: a searcher who knows more than the policy will, but reads the real index.

The index's own results are shown, so a demonstration holds nothing that the policy could not meet. One that would
teach guessing is dropped: a gold passage that was not found by its title, or an answer that is not in what was
shown. A searcher may also be impatient, and give up a chain of several searches after the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.agent.demonstrations.facts import Notes
from tasks.agent.demonstrations.form import Demonstration, Drop, fits, found_answer, is_yes_no
from tasks.agent.demonstrations.queries import NO_QUERY, Policy, queries
from tasks.agent.demonstrations.script import Script
from tasks.agent.episode import Setup
from tasks.agent.protocols import Call, Protocol
from tasks.agent.toolbox import Passage

UNKNOWN = "unknown"  # the answer of a searcher who gives up


async def demonstrate(
    row: dict[str, Any],
    *,
    setup: Setup,
    think: bool,
    policies: Sequence[Policy] = ("titles",),
    give_up: bool = False,
) -> Demonstration | Drop:
    """Make the demonstration of one question by the first query policy that leads to one.

    The answer is the first golden answer that the shown passages hold. By `titles` an answer of yes or no need
    not be in them; `found_answer_context` says what was found.

    Args:
        row: a row of the data contract.
        setup: what an episode would be played with; its tools, search among them, are called.
        think: whether each turn opens with a thought.
        policies: query policies in the order in which they are tried, at least one.
        give_up: whether the searcher answers `UNKNOWN` after the first of several searches.

    Returns:
        the demonstration, or why the last policy that had something to search for led to none.

    Raises:
        UnavailableError: the search cannot be had now.
    """
    reasons: list[Drop] = []
    for policy in policies:
        result = await _demonstrate(row, policy, setup, think, give_up)
        if isinstance(result, Demonstration):
            return result
        reasons.append(result)
    return ([reason for reason in reasons if reason not in NO_QUERY] or reasons)[-1]


async def _demonstrate(
    row: dict[str, Any], policy: Policy, setup: Setup, think: bool, give_up: bool
) -> Demonstration | Drop:
    info, protocol = row["extra_info"], setup.protocol
    golden = list(info["golden_answers"])
    asked = queries(policy, info)
    if isinstance(asked, str):
        return asked
    if len(asked) + 1 > setup.budget.max_turns:
        return "too_many_turns"
    give_up = give_up and len(asked) > 1
    notes, noted = Notes(protocol, info), ""
    searched = asked[:1] if give_up else asked
    async with Script(setup) as script:
        for number, query in enumerate(map(protocol.neutralise, searched)):
            turn = _search(protocol, query, noted, f"{'Next' if number else 'First'} I look up {query}.", think)
            if turn is None:
                return "not_in_form"
            if not await script.call(*turn):
                return "search_failed"
            noted = notes.take(script, [*searched[number + 1 : number + 2], *golden])
    if policy == "titles" and not _found_gold(info, script.passages, all_of_it=not give_up):
        return "gold_passage_not_found"
    answer = found_answer("\n".join(script.shown), golden)
    closing = UNKNOWN if give_up else golden[0] if answer is None else answer
    sources = [] if give_up else notes.sources
    last = _answer(protocol, closing, sources, "I give up." if give_up else "Now I can answer.", think)
    if last is None:
        return "not_in_form"
    script.answer(noted + last)
    if not fits(setup.chat.tokenizer, script.segments, setup.budget):
        return "too_long"
    if answer is None and not give_up and not (policy == "titles" and is_yes_no(golden)):
        return "answer_not_in_context"
    return Demonstration(
        id=info["id"],
        data_source=row["data_source"],
        prompt=[{"role": message["role"], "content": message["content"]} for message in row["prompt"]],
        question=info["question"],
        golden_answers=golden,
        hops=int(info["hops"]),
        query_policy=policy,
        found_answer_context=answer is not None,
        gave_up=give_up,
        segments=script.segments,
        searches=1 if give_up else len(asked),
        gold_passage_ids=tuple(info["gold_passage_ids"] or ()),
    )


def _found_gold(info: dict[str, Any], passages: Iterable[Passage], *, all_of_it: bool) -> bool:
    """Whether the gold passages were found, all or at least one; where a row names no ids, their titles count."""
    gold = {str(key) for key in info["gold_passage_ids"] or ()}
    wanted = gold or set(info["supporting_titles"])
    found = {passage.id if gold else passage.title for passage in passages}
    return found >= wanted if all_of_it else bool(found & wanted)


def _search(protocol: Protocol, query: str, noted: str, thought: str, think: bool) -> tuple[str, Sequence[Call]] | None:
    """A turn that searches and its call, or None where the protocol reads something else: a tag, or nothing."""
    text = noted + protocol.search(query, thought if think else None)
    action = protocol.action(text)
    asked = [(call.tool, call.text if call.arguments is None else call.arguments.get("query")) for call in action.calls]
    return (text, action.calls) if query.strip() and asked == [("search", query.strip())] else None


def _answer(protocol: Protocol, content: str, sources: Sequence[int], thought: str, think: bool) -> str | None:
    """A turn that answers, or None where the protocol would read it as something else."""
    text = protocol.answer(content, thought if think else None, sources)
    action = protocol.action(text)
    return text if (action.kind, protocol.citations(action.text)[0]) == ("answer", content.strip()) else None


@dataclass
class Collection:
    """Demonstrations that were made, in order, and why others were not."""

    made: list[Demonstration] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

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
    """Make demonstrations from rows in their order until `wanted` are made.

    Args:
        rows: rows of the data contract, each of another question; they may depend on what has been made so far.
        wanted: how many demonstrations to make.
        make: `demonstrate` with everything but its row.
        on_row: called after each row.
    """
    collection = Collection()
    if wanted == 0:
        return collection
    for row in rows:
        result = await make(row)
        if isinstance(result, Demonstration):
            collection.made.append(result)
        else:
            collection.dropped[result] += 1
        on_row(collection)
        if len(collection.made) == wanted:
            break
    return collection
