"""Copied template answers: the prompt's example, or one answer for whatever was asked."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from tasks.agent import protocols
from tasks.agent.rewards.answers import YES_NO, holds_answer, normalise
from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.run_data import RunData, late

COPIED_SHARE = 0.05  # of the answers: where stage rl raises its alarm, too (tasks/training/alarms.py)
ONE_ANSWER = 0.5  # share of the answers that are one and the same, wrong one: no set of questions has that
NOWHERE = 0.2  # the same of an answer that neither the question nor any passage read has: less is a habit of refusing
FEW = 3  # answers that may be alike by chance
QUESTIONS = 8  # with different golden answers, below which one answer may well be right for most
EXAMPLE_MEND = "set episode.example_answer: null, or take the example out of episode.prompt; then repeat demos and sft"
ONE_MEND = (
    "read the rollouts below: the policy has learnt one answer; see whether demonstrations, prompt or reward teach it. "
    "Make demonstrations anew, and lower rl.learning_rate if it came during RL"
)


def copies(data: RunData) -> Finding:
    """How many answers are an example's of the prompt, and whether one answer stands for everything."""
    look = Look("copied-answers", "Copied template answers")
    if data.episodes is None:
        look.lacking(data.why("rollouts"))
        return look.finding()
    answered = data.episodes[data.episodes["answer"].notna()]
    if answered.empty:
        look.missing("no rollout has an answer")
        return look.finding()
    answered = answered.assign(said=[normalise(one) for one in answered["answer"]])
    _examples(look, data, answered)
    _one_answer(look, data, late(answered, data.trained))
    return look.finding()


def examples_of(data: RunData) -> set[str]:
    """The answers that the prompt gives as an example, normalised: by parameter, or written into it."""
    prompt = data.param("episode.prompt", "")
    texts = list(prompt.values()) if isinstance(prompt, Mapping) else [prompt]
    protocol = protocols.create(data.param("episode.protocol", "search-r1"), data.param("tools.names", ["search"]))
    written = [answer for text in texts if text for answer in protocol.answers(str(text)) if "{" not in answer]
    given = data.param("episode.example_answer")
    return {said for one in (*written, *([given] if given else [])) if (said := normalise(one))}


def _examples(look: Look, data: RunData, answered: pd.DataFrame) -> None:
    examples = examples_of(data)
    wrong = answered["success"] < 1
    copied = answered[wrong & (answered["said"].isin(examples) | answered["copied_example"].fillna(False).astype(bool))]
    part, whole = late(copied, data.trained), late(answered, data.trained)
    share = max(len(copied) / len(answered), len(part) / max(1, len(whole)))
    if not len(copied):
        look.good(
            f"none of {len(answered):,} answers is the prompt's example ({', '.join(map(repr, sorted(examples)))})"
            if examples
            else "the prompt gives no answer as an example"
        )
        return
    named = sorted(set(copied["said"]))[:3]
    look.judge(
        share > COPIED_SHARE and len(copied) >= FEW,
        f"{len(copied):,} of {len(answered):,} answers are the prompt's {', '.join(map(repr, named))} and wrong, "
        f"{share:.0%} at most, {COPIED_SHARE:.0%} are allowed",
        EXAMPLE_MEND,
        _texts(copied),
    )
    marked = answered.assign(copied=answered.index.isin(copied.index)).groupby("step")["copied"].mean()
    look.plot = Plot(
        "share of the answers that are the example", {"copied": [(int(s), float(v)) for s, v in marked.items()]}
    )


def _one_answer(look: Look, data: RunData, answered: pd.DataFrame) -> None:
    if answered.empty:
        return
    taught = set()
    if data.demos is not None:
        protocol = protocols.create(data.param("episode.protocol", "search-r1"), data.param("tools.names", ["search"]))
        taught = {normalise(one) for text in data.demos["chosen"] for one in protocol.answers(str(text))[-1:]}
    counts = answered["said"].value_counts()
    untaught = counts[~counts.index.isin(taught)]
    said = str((untaught if len(untaught) and untaught.iloc[0] >= NOWHERE * len(answered) else counts).index[0])
    same = answered[answered["said"] == said]
    golden = {normalise(str(answers[0])) for answers in same["golden_answers"] if len(answers)}
    share = len(same) / len(answered)
    text = f"the most frequent answer of the later steps, {said!r}, is {share:.0%} of them"
    if said in taught:
        look.good(f"{text}, as the demonstrations give it")
        return
    read = [
        holds_answer(shown, said) or holds_answer(normalise(q), said)
        for shown, q in zip(same["shown"], same["question"], strict=True)
    ]
    nowhere = bool(said) and said not in YES_NO and data.demos is not None and sum(read) < 0.1 * len(read)
    look.judge(
        share >= (NOWHERE if nowhere else ONE_ANSWER) and len(golden) >= QUESTIONS and same["success"].mean() < 0.1,
        text + (", and neither questions nor passages have it" if nowhere and share >= NOWHERE else ""),
        ONE_MEND,
        _texts(same),
    )


def _texts(frame: pd.DataFrame) -> list[tuple[str, str]]:
    rows = frame.drop_duplicates("question_id").tail(2).itertuples()
    return [
        (f"step {row.step}: {row.question} (golden: {', '.join(map(str, row.golden_answers))})", row.text)
        for row in rows
    ]
