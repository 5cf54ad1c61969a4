"""What a finished episode has answered: of the generated text alone, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.agent.protocols import Protocol
from tasks.agent.trajectory import Trajectory


def read_answer(
    trajectory: Trajectory, row: Mapping[str, Any], protocol: Protocol, numbers: Mapping[str, int], example: str | None
) -> None:
    """Fill in the answer, how many there are, its citations and the fact list; no block reaches from turn to turn.

    Args:
        trajectory: a finished one.
        row: the question's row, for its gold passages.
        protocol: how answers are written.
        numbers: number by passage id, of the passages that were shown and can be cited.
        example: the answer that the prompt gives as an example.
    """
    turns = [segment.text for segment in trajectory.segments if segment.kind == "generated"]
    blocks = [block for turn in turns for block in protocol.answers(turn)]
    ids = {number: key for key, number in numbers.items()}
    if blocks:
        trajectory.answer, cited = protocol.citations(blocks[-1])
        trajectory.cited = [ids.get(number) for number in cited]
    trajectory.answer_blocks = _blocks(trajectory, protocol)
    trajectory.facts = [
        {"text": fact.text, "sources": [ids.get(number) for number in fact.sources]}
        for turn in turns
        for fact in protocol.facts(turn)
    ]
    known = row["extra_info"].get("gold_passage_ids")  # an array, out of parquet
    gold = set() if known is None else set(map(str, known))
    hits = len(gold & set(trajectory.cited))
    trajectory.citation_precision = hits / len(trajectory.cited) if gold and trajectory.cited else None
    trajectory.citation_recall = hits / len(gold) if gold else None
    if example is not None and trajectory.answer is not None:
        trajectory.copied_example = trajectory.answer.strip().casefold() == example.strip().casefold()


def _blocks(trajectory: Trajectory, protocol: Protocol) -> int:
    """Answer blocks less one for every word of the user's that was followed by any, after others before it."""
    counts = [0]
    for segment in trajectory.segments:
        if segment.kind == "user":
            counts.append(0)
        elif segment.kind == "generated":
            counts[-1] += len(protocol.answers(segment.text))
    return sum(counts) - max(0, sum(count > 0 for count in counts) - 1)
