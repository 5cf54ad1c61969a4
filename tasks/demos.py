"""Stage `demos`: demonstrations from training questions, and the training questions that are left for RL.

Decided: a demonstration searches the real index by gold titles and shows its real results; which rows it is
made from is drawn by seed; its question never comes back in RL; and at least half the training rows stay
for RL, whatever `demos.questions` asks for. `demos.give_up` makes the searcher impatient: SFT imitates that,
and RL has something to find.

    python -m tasks.demos
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.agent import environments
from tasks.agent.demonstrations import SCHEMA, Collection, Demonstration, Drop, collect, demonstrate
from tasks.agent.episode import Budget
from tasks.agent.protocol import PROTOCOLS
from tasks.contract import Figures, Stage, main
from tasks.errors import InputError


def run(stage: Stage) -> Figures:
    """Make the demonstrations, hold some back for the evaluation loss, write RL's rows."""
    train = pq.read_table(stage.input("ingest", "train.parquet"))
    environment = environments.create(stage.params.environment)
    if not environment.needs_retrieval:
        stage.say(f"environment {environment.name!r} searches nothing: no demonstrations")
        pq.write_table(train, stage.out / "rl_train.parquet")
        return {"n": 0, "validation": 0, "rl_rows": train.num_rows, "answer_in_context": None, "dropped": {}}
    collection = asyncio.run(_collect(stage, train, environment))
    made, wanted = collection.made, stage.params.demos
    if len(made) < 2:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(collection.dropped.items())) or "none"
        raise InputError(
            f"{len(made)} demonstrations from {train.num_rows} training rows, 2 are needed; dropped: {reasons}",
            where="data/ingest/train.parquet",
            mend="check supporting_titles, retrieval.topk and the token budgets of episode",
        )
    total = wanted.questions + wanted.validation
    if len(made) < total:
        stage.say(
            f"{len(made)} demonstrations instead of {total}: half of the {train.num_rows} training rows stay for RL, "
            f"and {collection.dropped.total()} were dropped"
        )
    # Too few to fill a batch would leave SFT without an evaluation loss: these come first, up to half.
    held_back = min(wanted.validation, len(made) // 2)
    validation, training = made[:held_back], made[held_back:]
    _write(stage.out / "train.parquet", training)
    _write(stage.out / "validation.parquet", validation)
    used = collection.questions
    questions = [info["question"] for info in train["extra_info"].to_pylist()]
    left = train.filter(pa.array([question not in used for question in questions]))
    pq.write_table(left, stage.out / "rl_train.parquet")
    figures: Figures = {
        "n": len(training),
        "validation": len(validation),
        "rl_rows": left.num_rows,
        "answer_in_context": collection.answer_in_context,
        "yes_no": sum(not (one.found_answer_context or one.gave_up) for one in made),
        "gave_up": sum(demonstration.gave_up for demonstration in made),
        "dropped": dict(sorted(collection.dropped.items())),
        "by_source": dict(sorted(Counter(demonstration.data_source for demonstration in made).items())),
        "mean_searches": fmean(demonstration.searches for demonstration in made),
    }
    stage.say(f"{len(training)} to train on, {len(validation)} held back, {left.num_rows} rows left for RL")
    return figures


async def _collect(stage: Stage, train: pa.Table, environment: environments.Environment) -> Collection:
    from transformers import AutoTokenizer

    episode, wanted = stage.params.episode, stage.params.demos
    play = partial(
        demonstrate,
        tools=environment.open_tools(stage.input("index"), stage.params.retrieval),
        tokenizer=AutoTokenizer.from_pretrained(stage.input("policy", "model")),
        protocol=PROTOCOLS[episode.protocol],
        budget=Budget(
            max_turns=episode.max_turns,
            max_response_tokens=episode.max_response_tokens,
            max_turn_tokens=episode.max_turn_tokens,
            max_observation_tokens=episode.max_observation_tokens,
        ),
        think=wanted.think,
    )

    async def make(row: dict[str, Any]) -> Demonstration | Drop:
        chance = random.Random(f"{stage.params.seed}:give-up:{row['extra_info']['id']}").random()
        return await play(row, give_up=chance < wanted.give_up)

    rows = train.to_pylist()
    random.Random(stage.params.seed).shuffle(rows)
    said = time.monotonic()

    def on_row(collection: Collection) -> None:
        nonlocal said
        if time.monotonic() - said > 5:
            said = time.monotonic()
            stage.say(f"{len(collection.made)} demonstrations, {collection.dropped.total()} dropped")

    return await collect(rows, min(wanted.questions + wanted.validation, len(rows) // 2), make, on_row)


def _write(path: Path, demonstrations: list[Demonstration]) -> None:
    rows = [demonstration.record() for demonstration in demonstrations]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)


if __name__ == "__main__":
    main("demos", run)
