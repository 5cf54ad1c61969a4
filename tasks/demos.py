"""Stage `demos`: demonstrations from training questions, and the training questions that are left for RL.

Decided: a demonstration searches the real index and shows its real results; which questions it is made from is
drawn by seed and by `demos.hop_weights`; its question never comes back in RL; and of every number of hops
`demos.rl_share` of the questions stays for RL, whatever `demos.questions` asks for. Demonstrations that the user
brings come first, and are checked against the index. None, made or brought, may show a question of the splits that
measure. `demos.give_up` makes the searcher impatient: SFT imitates that, and RL has something to find. A search that
cannot be had now ends the stage, with exit code 1: the input is right, and a later run may succeed; a server that
stumbles must not choose the training set.

    python -m tasks.demos
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq

from tasks.agent import environments, prompts
from tasks.agent.demonstrations import Collection, Demonstration, Drop, chosen, collect, demonstrate, table
from tasks.agent.demonstrations.drawing import Questions, Ration
from tasks.agent.demonstrations.held_out import FORMS, HeldOut
from tasks.agent.demonstrations.own import Own, read_own
from tasks.agent.demonstrations.own_rows import brief
from tasks.agent.episode import Setup
from tasks.agent.setup import open_setup
from tasks.agent.toolbox.serving import serving
from tasks.contract import Figures, Stage, main
from tasks.errors import InputError
from tasks.params import Playing
from tasks.qa import near
from tasks.retrieval.index import manifest

SOURCES = Path("data/sources")  # where demos.files and demos.rl_questions start; DVC watches this folder for the stage


def run(stage: Stage) -> Figures:
    """Make the demonstrations, hold some back for the evaluation loss, write RL's rows."""
    rows = stage.input("ingest", "train.parquet")
    environment = environments.create(stage.params.environment)
    if not environment.needs_retrieval:
        return _none(stage, rows, environment.name)
    wanted = stage.params.demos.rl_questions
    chosen_ids = None if wanted is None else chosen.read_ids(SOURCES, wanted)
    questions = Questions.read(rows)
    ration = Ration(questions, stage.params.demos.rl_share)
    held_out = HeldOut.read([stage.input("ingest", f"{split}.parquet") for split in ("validation", "test")])
    params, index = stage.params, stage.input("index")
    manifest.require_corpus(index, stage.input("ingest", "corpus.parquet"))
    with serving(Playing.of(params), index=index, say=stage.say) as playing:
        setup = _open(stage, playing)
        own, collection = asyncio.run(_collect(stage, questions, ration, setup, held_out))
        schemas = setup.tools.schemas if setup.protocol.calls_tools_by_schema else []
    placed = own.taken + [(f"{rows}, row {questions.first_row_of(one.question)}", one) for one in collection.made]
    leaked = _check_held_out(stage, placed, held_out)
    made = [demonstration for _, demonstration in placed]
    _check_enough(stage, made, collection, len(questions.hops))
    random.Random(stage.params.seed).shuffle(made)
    # Too few to fill a batch would leave SFT without an evaluation loss: these come first, up to half.
    held_back = min(stage.params.demos.validation, len(made) // 2)
    pq.write_table(table(made[held_back:], schemas), stage.out / "train.parquet")
    pq.write_table(table(made[:held_back], schemas), stage.out / "validation.parquet")
    left = questions.write_left(ration.used, stage.out / "left.parquet")
    if not left:
        raise InputError(
            "no training row is left for RL",
            where=str(rows),
            mend="raise demos.rl_share or ask for fewer demos.questions",
        )
    by_hops = Counter(demonstration.hops for demonstration in made)
    figures: Figures = {
        "n": len(made) - held_back,
        "validation": held_back,
        "rl_rows": chosen.write(stage.out / "left.parquet", chosen_ids, stage.out / "rl_train.parquet"),
        "answer_in_context": collection.answer_in_context,
        "yes_no": sum(not (one.found_answer_context or one.gave_up) for one in made),
        "gave_up": sum(demonstration.gave_up for demonstration in made),
        "dropped": dict(sorted(collection.dropped.items())),
        "held_out": leaked,
        "own": {"rows": own.rows, "taken": len(own.taken), "faulty": dict(sorted(own.faulty.items()))},
        "by_source": _counts(demonstration.data_source for demonstration in made),
        "by_policy": _counts(demonstration.query_policy for demonstration in made),
        "by_hops": {str(hops): {"made": by_hops[hops], "left": left[hops]} for hops in sorted({*by_hops, *left})},
        "mean_searches": fmean(demonstration.searches for demonstration in made),
    }
    _say_figures(stage, figures)
    return figures


def _none(stage: Stage, rows: Path, environment: str) -> Figures:
    if stage.params.demos.files:
        raise InputError(
            f"environment {environment!r} searches nothing, so no demonstration can be checked",
            where="demos.files",
            mend="leave it empty",
        )
    stage.say(f"environment {environment!r} searches nothing: no demonstrations")
    wanted = stage.params.demos.rl_questions
    chosen_ids = None if wanted is None else chosen.read_ids(SOURCES, wanted)
    shutil.copyfile(rows, stage.out / "left.parquet")
    kept = chosen.write(rows, chosen_ids, stage.out / "rl_train.parquet")
    return {"n": 0, "validation": 0, "rl_rows": kept, "answer_in_context": None, "dropped": {}}


def _open(stage: Stage, playing: Playing) -> Setup:
    """What an episode is played with; its tools must search, since demonstrations do."""
    from transformers import AutoTokenizer

    if "search" not in playing.tools.names:
        raise InputError("demonstrations search, and there is no tool search", where="tools.names", mend="name it")
    return open_setup(
        playing,
        index=stage.input("index"),
        tokenizer=AutoTokenizer.from_pretrained(stage.input("policy", "model")),
    )


async def _collect(
    stage: Stage, questions: Questions, ration: Ration, setup: Setup, held_out: HeldOut
) -> tuple[Own, Collection]:
    """The user's demonstrations, and those that are made to reach the number asked for."""
    episode, wanted, seed = stage.params.episode, stage.params.demos, stage.params.seed
    own = Own()
    if wanted.files:
        template = prompts.of_params(episode, stage.params.tools)
        own = await read_own(
            [SOURCES / name for name in wanted.files],
            max_faulty=wanted.max_faulty,
            held_out=held_out,
            prompt=lambda question: setup.environment.prompt(question, template),
            max_prompt_tokens=episode.max_prompt_tokens,
            setup=setup,
        )
        own.taken = [(where, _counted(ration, made, where)) for where, made in own.taken]
        stage.say(f"{len(own.taken)} demonstrations from demos.files; faulty: {_listed(own.faulty)}")

    async def make(row: dict[str, Any]) -> Demonstration | Drop:
        info = row["extra_info"]
        give_up = random.Random(f"{seed}:give-up:{info['id']}").random() < wanted.give_up
        result = await demonstrate(row, setup=setup, think=wanted.think, policies=wanted.queries, give_up=give_up)
        return _counted(ration, result, info["id"]) if isinstance(result, Demonstration) else result

    said = time.monotonic()

    def on_row(collection: Collection) -> None:
        nonlocal said
        if time.monotonic() - said > 5:
            said = time.monotonic()
            stage.say(f"{len(collection.made)} demonstrations, {collection.dropped.total()} dropped")

    missing = max(0, wanted.questions + wanted.validation - len(own.taken))
    order = questions.order(wanted.hop_weights, seed)
    return own, await collect(ration.rows(order), missing, make, on_row)


def _check_held_out(stage: Stage, placed: list[tuple[str, Demonstration]], held_out: HeldOut) -> dict[str, int]:
    """How many demonstrations show a held-out question, by form: none.

    Raises:
        InputError: there are some; names the first, and the held-out row.
    """
    made = [demonstration for _, demonstration in placed]
    texts = near.Texts(
        [one.question for one in made], [one.golden_answers for one in made], [one.gold_passage_ids for one in made]
    )
    asked = held_out.asked(texts)
    found: Counter[str] = Counter(one.form for one in asked.values())
    counts: dict[str, int] = {form: found[form] for form in FORMS}
    if asked:
        stage.track.log_figures({"held_out": counts})
        number = min(asked)
        where, first = placed[number]
        raise InputError(
            f"{len(asked)} of {len(made)} demonstrations show a held-out question ({_listed(found)}); first: "
            f"{brief(first.question)} is {asked[number].form} to {asked[number].where}",
            where=where,
            mend="take such rows out of the training questions; ingest does with ingest.drop_near_duplicates: true",
        )
    return counts


def _counted(ration: Ration, made: Demonstration, where: str) -> Demonstration:
    """Use up the question; where the training rows ask it, the hops are theirs."""
    hops = ration.use(made.question, where)
    return made if hops is None else replace(made, hops=hops)


def _check_enough(stage: Stage, made: list[Demonstration], collection: Collection, questions: int) -> None:
    wanted = stage.params.demos
    if len(made) < 2:
        raise InputError(
            f"{len(made)} demonstrations from {questions} training questions, 2 are needed; "
            f"dropped: {_listed(collection.dropped)}",
            where="data/ingest/train.parquet",
            mend="check supporting_titles, demos.queries, demos.rl_share, retrieval.topk and the budgets of episode",
        )
    total = wanted.questions + wanted.validation
    if len(made) < total:
        stage.say(
            f"{len(made)} demonstrations instead of {total}: {wanted.rl_share:g} of the {questions} training questions "
            f"stay for RL, and {collection.dropped.total()} were dropped"
        )


def _counts(labels: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(labels).items()))


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


def _say_figures(stage: Stage, figures: Figures) -> None:
    hops = ", ".join(f"{of['made']:,} of {name} ({of['left']:,} left)" for name, of in figures["by_hops"].items())
    stage.say(
        f"{figures['n']:,} to train on, {figures['validation']:,} held back, {figures['rl_rows']:,} rows for RL; "
        f"by policy: {_listed(figures['by_policy'])}; by hops: {hops}; dropped: {_listed(figures['dropped'])}"
    )


if __name__ == "__main__":
    main("demos", run)
