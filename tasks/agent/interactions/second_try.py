"""A user who knows the answer, and asks once more when it is wrong."""

from __future__ import annotations

from typing import Any

from tasks.agent.rewards import scorer_of


class Interaction:
    """Says nothing to a right answer, and to a wrong one that it is wrong; never what is right."""

    def reply(self, row: dict[str, Any], answer: str, said: int) -> str | None:
        right = scorer_of(row)(answer, list(row["extra_info"]["golden_answers"]))
        return None if right else "That is not right. Look again, and give another answer."
