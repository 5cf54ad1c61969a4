from collections.abc import Callable, Sequence

import pytest

from tasks.ablation import result
from tasks.ablation.result import Result


@pytest.fixture
def make_result() -> Callable[..., Result]:
    """A result of ten questions, the last five of them of two hops, or of as many as `em` has."""

    def make(arm: str, seed: int = 0, em: Sequence[int] = (1,) * 8 + (0,) * 2, **top) -> Result:
        n = len(em)

        def model(answers: Sequence[int], searches: float) -> dict:
            return {"em": list(answers), "searches": searches, "format_rate": 1.0}

        content = {
            "arm": arm,
            "seed": seed,
            "profile": "tiny",
            "commit": "abc",
            "machine": "2 cores",
            "questions": {
                "id": [f"q{number:04d}" for number in range(n)],
                "kind": ["one-hop"] * (n - n // 2) + ["two-hop"] * (n // 2),
                "hops": [1] * (n - n // 2) + [2] * (n // 2),
            },
            "models": {
                "base": model([0] * n, 0.0),
                "sft": model([1] * (n // 2) + [0] * (n - n // 2), 1.0),
                "rl": model(em, 1.5),
            },
            "steps": [
                {"step": step, "data": {"episode/score": reward}} for step, reward in ((1, 0.25), (2, 0.5), (3, 0.75))
            ],
            "validation": {"0": {"em": 0.4, "searches": 1.0}, "10": {"em": 0.9, "searches": 1.5}},
            "seconds_per_step": 6.5,
            "generations_per_batch": 1.25,
        }
        return result.parse({**content, **top}, where="test")

    return make
