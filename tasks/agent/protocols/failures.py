"""What the policy is told of a call that failed: the system's own words, never those of an exception."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.agent.toolbox.base import Failure

_WORDS: dict[Failure, str] = {
    "arguments": "the arguments do not fit.",
    "timeout": "it took too long.",
    "raised": "it broke.",
    "unavailable": "it is not available now.",
    "spent": "no more calls may be made for this question.",
    "state": "it broke.",
    "result": "it brought nothing that can be shown.",
    "worker": "it broke.",
    "surplus": "too many calls in one turn; this one was not run.",
}


def told(failure: Failure, tools: Sequence[str]) -> str:
    """One line on a failed call."""
    if failure == "unknown":
        return f"Error: there is no such tool. Tools are: {', '.join(tools)}."
    return f"Error: {_WORDS[failure]}"


def told_surplus(count: int) -> str:
    """One line on a turn's last calls, which were too many."""
    if count == 1:
        return f"Error: {_WORDS['surplus']}"
    return f"Error: too many calls in one turn; the last {count} were not run."
