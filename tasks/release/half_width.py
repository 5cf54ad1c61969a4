"""How many questions an interval of a given half width needs: Wilson's interval (1927), inverted.

Half of Wilson's interval of a rate p on n questions is w = z / (1 + z^2 / n) * sqrt(p (1 - p) / n + z^2 / (4 n^2)).
Solved for n, with v = p (1 - p):

    n = z^2 / (2 w^2) * (v - 2 w^2 + sqrt(v^2 + w^2 - 4 v w^2))

For a rate of 0 or 1 it is z^2 (1 - 2 w) / (2 w), which no other rate needs less than.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from tasks.errors import InputError

_LEAST = 1e-6  # a half width that asks for more questions than anybody has
_SAME = 1e-6  # half widths that differ by less are one
_NOISE = 1e-9  # of floats: what is a whole number must not be rounded up


def wilson(rate: float, n: int, confidence: float) -> float:
    """Half width of Wilson's interval.

    Args:
        rate: in [0, 1].
        n: questions, at least 1.
        confidence: level in (0, 1).
    """
    z = _z(confidence)
    return z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))


def needed(rate: float, width: float, confidence: float) -> int:
    """Least number of questions whose interval is no wider than `width` to either side, at this rate."""
    z, v, w2 = _z(confidence), rate * (1 - rate), width * width
    if width >= 0.5:  # Wilson's interval lies in [0, 1]
        return 1
    return max(1, math.ceil(z * z / (2 * w2) * (v - 2 * w2 + math.sqrt(v * v + w2 - 4 * v * w2)) - _NOISE))


def require_possible(width: float, questions: int, confidence: float) -> None:
    """Refuse, before anything runs, what no rate could reach with so few questions.

    Raises:
        InputError: even at a rate of 0 or 1 the interval would be too wide.
    """
    if width < _LEAST:
        raise InputError(f"at least {_LEAST:g}, got {width:g}", where="gate.half_width", mend="ask for 0.03, say")
    if (least := needed(0.0, width, confidence)) > questions:
        asked = f"half an interval of {width:g} at {100 * confidence:g}%"
        raise InputError(
            f"{asked} takes {least:,} questions at least, whatever the rate, and evaluate.questions is {questions:,}",
            where="gate.half_width",
            mend=f"set evaluate.questions to {needed(0.5, width, confidence):,}, which is enough at any rate",
        )


def require(width: float, success: Mapping[str, Any], n: int, confidence: float) -> None:
    """Refuse an interval that is wider than what was asked for.

    A rate's interval is Wilson's. Where success is graded it is a bootstrap's, whose width falls with the root of n.

    Args:
        width: the largest half width allowed.
        success: `mean`, `low` and `high`.
        n: questions behind them.
        confidence: level of the interval.

    Raises:
        InputError: it is too wide; the line says how many questions are needed.
    """
    mean, half = success["mean"], (success["high"] - success["low"]) / 2
    if half <= width:
        return
    is_rate = abs(wilson(mean, n, confidence) - half) < _SAME
    more = needed(mean, width, confidence) if is_rate else math.ceil(n * (half / width) ** 2 * (1 - _NOISE))
    raise InputError(
        f"success {mean:.3g} [{success['low']:.3g}, {success['high']:.3g}] on {n:,} questions: half the interval is "
        f"{half:.3g}, more than {width:g}; at this success {more:,} questions are needed",
        where="gate.half_width",
        mend=f"set evaluate.questions to {more:,} or more, and see that the test set holds as many",
    )


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
