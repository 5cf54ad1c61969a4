"""A demonstration under way: turns as a policy would write them, and after each what an episode shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from uuid import uuid4

from tasks.agent.demonstrations.form import Segment
from tasks.agent.episode import Setup
from tasks.agent.fitting import shown
from tasks.agent.protocols import Call, Observation
from tasks.agent.toolbox import Passage
from tasks.errors import UnavailableError

_NOT_NOW = ("unavailable", "worker", "timeout")  # failures that say nothing about the call


class Script:
    """Plays given turns on an episode's own tools; used as a context, which frees what they remember.

    Attributes:
        segments: the demonstration so far.
        shown: the foreign text that was shown after each turn, as it was cut.
        passages: what the tools found, in the order in which it was shown.
        found: the last turn's part of it.
        numbers: number by passage id, of all passages shown.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup, self._id, self._turns = setup, uuid4().hex, 0
        self.segments: list[Segment] = []
        self.shown: list[str] = []
        self.passages: list[Passage] = []
        self.found: list[Passage] = []
        self.numbers: dict[str, int] = {}

    async def __aenter__(self) -> Script:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._setup.tools.release(self._id)

    async def call(self, turn: str, calls: Sequence[Call]) -> bool:
        """A turn that calls tools, and what they bring; whether they all brought something.

        Args:
            turn: its text, without the end token.
            calls: what it asks for.

        Raises:
            UnavailableError: a tool cannot be had now. A demonstration that is left out for that would make the data
                set another one each time.
        """
        setup, protocol, budget = self._setup, self._setup.protocol, self._setup.budget
        end = setup.chat.tokenizer.eos_token if protocol.ends_turn else ""
        self.segments.append(Segment(f"{turn}{end}", True, "generated"))
        self._turns += 1
        results = await setup.tools.call(self._id, calls)
        for call, result in zip(calls, results, strict=True):
            if result.failure in _NOT_NOW:
                raise UnavailableError(f"tool {call.tool} cannot be had now: a call has failed ({result.failure})")
        self.found = [passage for result in results for passage in result.passages]
        self.passages += self.found
        forced = budget.force_answer and self._turns + 1 >= budget.max_turns
        numbers = dict(self.numbers)
        seen = shown(
            results,
            numbers,
            protocol.last_turn if forced else "",
            protocol=protocol,
            chat=setup.chat,
            limit=budget.max_observation_tokens,
            turn_ended=protocol.ends_turn,
        )
        # As in an episode: what the budget has cut away was not shown.
        legible = protocol.numbered(self._show(seen))
        self.numbers |= {key: number for key, number in numbers.items() if number in legible}
        return all(result.failure is None for result in results)

    def answer(self, turn: str) -> None:
        """The last turn; its end token belongs to the data set."""
        self.segments.append(Segment(turn, True, "generated"))

    def _show(self, observation: Observation) -> str:
        """Append what is shown; its text."""

        def pieces(of: Observation) -> list[str]:
            limit, ended = self._setup.budget.max_observation_tokens, self._setup.protocol.ends_turn
            return self._setup.chat.pieces(of, limit, turn_ended=ended)

        said = pieces(observation)
        self.segments += [Segment(text, False, "observation") for text in said]
        frame = pieces(replace(observation, bodies=("",) * len(observation.bodies)))
        self.shown.append("\n".join(_between(said, frame)))
        return "".join(said)


def _between(pieces: Iterable[str], frame: Iterable[str]) -> list[str]:
    """The pieces that are not the frame's; they come between its own, in its order."""
    rest = iter(frame)
    expected = next(rest, None)
    bodies = []
    for piece in pieces:
        if piece == expected:
            expected = next(rest, None)
        else:
            bodies.append(piece)
    return bodies
