"""All parts that a reward can have, in one table; `environment.reward` says which count, and how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tasks.agent.rewards import answers, length, outcome, penalties
from tasks.agent.rewards.answers import Judge
from tasks.agent.rewards.parameters import (
    AnswerPart,
    FormatPart,
    LengthPart,
    Part,
    QueriesPart,
    StepsPart,
    ThreePartPart,
)

if TYPE_CHECKING:
    from tasks.agent.trajectory import Trajectory


@dataclass(frozen=True)
class Case:
    """What parts are computed from.

    Attributes:
        trajectory: a finished one; answer, form and citations are filled in.
        golden: golden answers.
        exact: what an exact match is, by the scorer that the row names.
        right: how right the answer is, in [0, 1]: the highest of the answer scores that the reward pays.
    """

    trajectory: Trajectory
    golden: Sequence[str]
    exact: Judge
    right: float = 0.0

    @property
    def em(self) -> float:
        """Whether the answer is an exact match, 0.0 or 1.0."""
        return self.exact(self.trajectory.answer, self.golden)


@dataclass(frozen=True)
class Entry:
    """A part that a reward can have.

    Attributes:
        kind: an outcome is divided by the number of answer blocks; shaping counts whether or not there is an answer.
        params: the model of its parameters.
        score: the part without its weight and the division; a mapping is logged key by key, as NAME_KEY.
        formula: the same in words, for docs/rewards.md, as are the next two.
        source: where it comes from.
        hacks: how a policy can earn it without doing what is meant.
        answer: how right an answer is, for a part that pays right answers; None for the others.
    """

    kind: Literal["outcome", "shaping"]
    params: type[Part]
    score: Callable[[Case, Any], float | Mapping[str, float]]
    formula: str
    source: str
    hacks: str
    answer: Callable[[Case], float] | None = None


def _answer(score: Callable[[Case], float], **words: str) -> Entry:
    return Entry("outcome", AnswerPart, lambda case, _: score(case), answer=score, **words)


def _three_part(case: Case, params: ThreePartPart) -> Mapping[str, float]:
    played = case.trajectory
    limits = params.max_tokens, params.cache_tokens
    return outcome.three_part(case.em, played.format_valid, played.generated_tokens, *limits)._asdict()


REWARDS: dict[str, Entry] = {
    "em": _answer(
        lambda case: case.em,
        formula="1 if the answer equals a golden answer, both in SQuAD's normal form (`U.S.` is `us`), or as another "
        "scorer has it that the row names",
        source="Rajpurkar et al. 2016 (SQuAD v1.1); Jin et al. 2025 (Search-R1), eq. 4",
        hacks="guesses where there are few answers (yes/no); the prompt's example answer, copied (`copied_example`)",
    ),
    "f1": _answer(
        lambda case: answers.f1(case.trajectory.answer, case.golden),
        formula="highest token F1 with a golden answer, in SQuAD's normal form",
        source="Rajpurkar et al. 2016; as an RL reward: Song et al. 2025 (R1-Searcher)",
        hacks="answers padded with likely words: half a name earns without being right",
    ),
    "cover_em": _answer(
        lambda case: answers.cover_em(case.trajectory.answer, case.golden),
        formula="1 if the answer holds a golden answer as whole words",
        source="Song et al. 2025 (R1-Searcher), cover exact match; whole words are our rule",
        hacks="every candidate in one long answer, or a passage copied whole: pair it with `soft_overlong`",
    ),
    "format": Entry(
        "outcome",
        FormatPart,
        lambda case, params: outcome.format_score(case.right, case.trajectory.step, params.decay_steps),
        formula="(1 - s) × max(0, 1 - step / decay_steps); s: the highest score of the answer parts in force. "
        "Without decay_steps, and outside of training: 1 - s",
        source="Search-R1's `compute_score_em(format_score=...)`; the decay is ours",
        hacks="any answer at once, without a search; groups of nothing but wrong answers are equal and teach nothing",
    ),
    "three_part": Entry(
        "outcome",
        ThreePartPart,
        _three_part,
        formula="0.7 × EM + 0.1 × in form + 0.2 × EM × (1 + soft overlong punishment); "
        "logged as three_part_correct, _format and _length",
        source="published without a definition of its length part: that is our reading",
        hacks="as `em`; and no thinking at all, where the length part is all that still differs in a group",
        answer=lambda case: case.em,
    ),
    "citation_precision": Entry(
        "outcome",
        Part,
        lambda case, _: case.trajectory.citation_precision or 0.0,
        formula="share of the cited passages that are gold; 0 without a citation",
        source="citation precision, with gold passages as the judge (Gao et al. 2023, ALCE, asks an NLI model)",
        hacks="one sure passage cited and the others left out (see citation_recall); good citations, wrong answer",
    ),
    "soft_overlong": Entry(
        "shaping",
        LengthPart,
        lambda case, params: length.soft_overlong(
            case.trajectory.generated_tokens, params.max_tokens, params.cache_tokens
        ),
        formula="0 up to Lmax - Lcache, ((Lmax - Lcache) - n) / Lcache up to Lmax, then -1; n: generated tokens, "
        "Lmax: max_tokens, Lcache: cache_tokens",
        source="Yu et al. 2025 (DAPO), eq. 13; verl's own counts observations as well",
        hacks="work moved to where nothing is counted: long tool results instead of thinking",
    ),
    "steps": Entry(
        "shaping",
        StepsPart,
        lambda case, params: penalties.step_penalty(case.trajectory.turns, params.growth),
        formula="-turns (linear) or -turns² (quadratic); turns: generated ones, the answer's as well",
        source="ours; a living cost, as in any RL task with a goal to reach",
        hacks="no search at all: a guess in one turn, once a search costs more than it brings",
    ),
    "repeated_queries": Entry(
        "shaping",
        QueriesPart,
        lambda case, params: penalties.repeated_queries(case.trajectory.queries, params.threshold),
        formula="minus the sum over the queries after the first of the highest Rouge-L F with an earlier one, "
        "where that is at least threshold",
        source="ours, on Rouge-L (Lin 2004, eq. 2 to 4, beta = 1)",
        hacks="the same question in other words; padding; one query only. Words are told apart by spaces",
    ),
}


def markdown() -> str:
    """The table as docs/rewards.md shows it."""
    head = ["part", "kind", "parameters", "score, before its weight", "source", "how it is hacked"]
    rows = [
        [f"`{name}`", entry.kind, ", ".join(entry.params.model_fields), entry.formula, entry.source, entry.hacks]
        for name, entry in REWARDS.items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
