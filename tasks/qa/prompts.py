"""The question in a prompt's text, for prompts that were made elsewhere."""

from __future__ import annotations

import re

_MARK = re.compile(r"\bquestion:", re.IGNORECASE)


def asked(content: str) -> str:
    """What follows the last `Question:`, in any case; the whole text where there is none."""
    return _MARK.split(content)[-1].strip()


def holds(content: str, question: str) -> bool:
    """Whether a prompt's text holds a question, whatever the white space."""
    return question in content or " ".join(question.split()) in " ".join(content.split())
