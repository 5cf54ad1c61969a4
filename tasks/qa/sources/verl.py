"""verl's rows, as Search-R1's `nq_hotpotqa_train` and others have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.agent.rewards import SCORERS, normalise
from tasks.qa import prompts
from tasks.qa.reading import RowError, fields, kind
from tasks.qa.records import Question
from tasks.qa.sources.files import QuestionSource

_SHOWN = 60


class Source(QuestionSource):
    """Rows `{data_source, prompt[{role, content}], reward_model{ground_truth}, extra_info{}?, id?, question?, ...}`.

    What a question is made of, the first that is there: `question`, `extra_info.question`, the user's last message
    in the prompt behind `Question:`; `golden_answers`, `extra_info.golden_answers`, `reward_model.ground_truth` as a
    text, a list or `{target}`; `extra_info.id`, or `data_source` with `id`, or with the split and `extra_info.index`:
    ids and indices start anew in every set that such a file is merged of.
    """

    reader = "verl"
    upstream = 'Jin et al., "Search-R1" (2025), https://github.com/PeterGriffinJin/Search-R1, or other users of verl'
    required = ("data_source", "prompt", "reward_model")
    optional = ("id", "question", "golden_answers", "extra_info")

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question]:
        source = fields.text(fields.required(row, "data_source"), "data_source")
        extra = {} if row.get("extra_info") is None else fields.entries(row["extra_info"], "extra_info")
        titles = fields.titles(extra.get("supporting_titles") or [], "extra_info.supporting_titles")
        golds = fields.identities(extra.get("gold_passage_ids") or [], "extra_info.gold_passage_ids")
        hops = extra.get("hops")
        question, golden = _question(row, extra), _answers(row, extra)
        _refuse_contradictions(row, question, golden)
        return (
            Question(
                id=self._id(row, extra, source, number),
                data_source=source,
                question=question,
                golden_answers=golden,
                hops=max(1, len(titles), len(golds)) if fields.absent(hops) else fields.hops(hops, "extra_info.hops"),
                supporting_titles=titles,
                gold_passage_ids=golds,
                origin=origin,
                split=self.keys.split,
                type=fields.label(extra.get("type"), "extra_info.type"),
                scorer=_scorer(row),
            ),
        )

    def _id(self, row: dict[str, Any], extra: dict[str, Any], source: str, number: int) -> str:
        if extra.get("id") is not None:
            return fields.identity(extra["id"], "extra_info.id")
        if row.get("id") is not None:
            return f"{source}-{fields.identity(row['id'], 'id')}"
        if extra.get("index") is not None:
            return f"{source}-{self.keys.split}-{fields.identity(extra['index'], 'extra_info.index')}"
        return self.made_id(number)


def _question(row: dict[str, Any], extra: dict[str, Any]) -> str:
    if row.get("question") is not None:
        return fields.question(row["question"], "question")
    if extra.get("question") is not None:
        return fields.question(extra["question"], "extra_info.question")
    if "question" in row:
        return fields.question(row["question"], "question")
    return fields.question(prompts.asked(_asked(row)), "prompt")


def _asked(row: dict[str, Any]) -> str:
    """The last message of the user."""
    asked = ""
    for number, message in enumerate(fields.items(fields.required(row, "prompt"), "prompt")):
        place = f"prompt.{number}"
        if fields.required(fields.entries(message, place), "role") == "user":
            asked = fields.text(fields.required(message, "content"), f"{place}.content", "empty_question")
    if not asked:
        raise RowError("empty_question", "prompt: holds no message of the user")
    return asked


def _answers(row: dict[str, Any], extra: dict[str, Any]) -> tuple[str, ...]:
    if row.get("golden_answers") is not None:
        return fields.answers(row["golden_answers"], "golden_answers", lone=True)
    if extra.get("golden_answers") is not None:
        return fields.answers(extra["golden_answers"], "extra_info.golden_answers", lone=True)
    return _truth(row)


def _truth(row: dict[str, Any]) -> tuple[str, ...]:
    """The answers that verl's reward compares with."""
    key = "reward_model.ground_truth"
    truth = fields.required(fields.entries(fields.required(row, "reward_model"), "reward_model"), "ground_truth")
    if isinstance(truth, dict):
        if "target" not in truth:
            raise RowError("wrong_type", f"{key}: must be a text, a list of texts or {{target}}, got {kind(truth)}")
        truth, key = truth["target"], f"{key}.target"
    return fields.answers(truth, key, lone=True)


def _scorer(row: dict[str, Any]) -> str:
    """What judges the answer, where the ground truth names it."""
    truth = row["reward_model"]["ground_truth"]
    named = truth.get("scorer") if isinstance(truth, dict) else None
    if named is None:
        return "squad"
    if not isinstance(named, str) or named not in SCORERS:
        key = "reward_model.ground_truth.scorer"
        raise RowError("unknown_scorer", f"{key}: must be one of {', '.join(SCORERS)}, got {str(named)[:_SHOWN]!r}")
    return named


def _refuse_contradictions(row: dict[str, Any], question: str, golden: tuple[str, ...]) -> None:
    """Refuse a row whose other columns say something else: ingest writes them anew, and nobody would see it later."""
    if not prompts.holds(_asked(row), question):
        raise RowError("contradiction", "prompt: does not hold the question")
    if {normalise(answer) for answer in _truth(row)} != {normalise(answer) for answer in golden}:
        raise RowError("contradiction", "reward_model.ground_truth: is not the golden answers")
