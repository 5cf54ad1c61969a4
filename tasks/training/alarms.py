"""What a user should hear of while it happens."""

from __future__ import annotations

COPIED_SHARE = 0.05  # of the answers: from here on the policy copies the prompt's example
NO_SIGNAL_SHARE = 0.9  # of the groups: from here on a step teaches next to nothing


class Alarms:
    """What a user should hear of while it happens, from the figures of each step.

    An alarm is raised when its share passes its bound, and again when it has doubled.
    """

    def __init__(self, example: str | None) -> None:
        """Take the answer that the prompt gives as an example."""
        self._example = example
        self._told = 0.0
        self._flat = False

    def of(self, figures: dict[str, float]) -> list[str]:
        """Lines about one training step; `figures` are named as `RolloutLog.figures` names them."""
        lines = []
        answers, copied = figures.get("episode/answers", 0.0), figures.get("episode/copied_example", 0.0)
        share = copied / answers if answers else 0.0
        if share > max(COPIED_SHARE, 2 * self._told):
            self._told = share
            lines.append(
                f"ALARM: {copied:.0f} of {answers:.0f} answers ({share:.0%}) are the prompt's own example, "
                f"{self._example!r}: the policy copies it; set episode.example_answer to null"
            )
        flat = figures.get("episode/groups_without_signal", 0.0)
        if flat > NO_SIGNAL_SHARE and not self._flat:
            lines.append(
                f"ALARM: in {flat:.0%} of the groups all rewards are equal, so that they teach nothing: the questions "
                f"are too hard or too easy for the policy, or the reward is too coarse"
            )
        self._flat = flat > NO_SIGNAL_SHARE
        return lines
