"""`python -m tasks.rl --check-engine`: vLLM against transformers on whole episodes, without training anything.

The same comparison as RL's own before its first step (`tasks.training.sanity`), on an engine of its own: greedy, the
same weights, several turns with real observations between them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.agent.setup import open_setup
from tasks.agent.toolbox.serving import serving
from tasks.errors import InputError
from tasks.files import write_text_aside
from tasks.training.sanity import SanityCheck
from tasks.training.sanity_report import report


def require_model(model: Path, tokens: int) -> None:
    """Refuse a folder that holds no model to play with.

    Args:
        model: the folder.
        tokens: of the longest episode.

    Raises:
        InputError: there is no configuration with a dtype, no weights, no tokenizer or no chat template, or the
            model's context is shorter than an episode.
    """
    mend = "name a folder such as data/sft/model, or bring a model in by policy.source"
    config = model / "config.json"
    if not config.is_file() or not list(model.glob("*.safetensors")):
        raise InputError("no model in Hugging Face's form: config.json and *.safetensors", where=str(model), mend=mend)
    content = json.loads(config.read_text(encoding="utf-8"))
    if "dtype" not in content:
        raise InputError("does not name the weights' dtype", where=str(config), mend=mend)
    if content.get("max_position_embeddings", tokens) < tokens:
        raise InputError(
            f"max_position_embeddings {content['max_position_embeddings']} is less than an episode's {tokens} tokens",
            where=str(config),
            mend="lower episode.max_response_tokens or episode.max_prompt_tokens",
        )
    if not (model / "tokenizer_config.json").is_file():
        raise InputError("no tokenizer beside the weights", where=str(model), mend=mend)
    from transformers import AutoTokenizer

    if AutoTokenizer.from_pretrained(model).chat_template is None:
        raise InputError("the tokenizer has no chat template", where=str(model), mend=mend)


def check_engine(
    params: Any, *, model: Path, validation: Path, index: Path, episodes: int, out: Path, say: Callable[[str], None]
) -> bool:
    """Play validation questions greedily in vLLM and put them through transformers.

    Args:
        params: the sections of stage rl.
        model: folder of the weights, for both.
        validation: the validation questions; the first are played.
        index: folder of the retrieval index.
        episodes: how many questions, where there are as many.
        out: takes `report.txt`, `episodes.jsonl` (the texts) and `verdicts/`; replaced when whole.
        say: takes a line of progress, and the report.

    Returns:
        whether they agree.

    Raises:
        InputError: there is no such model, or it does not fit the questions.
    """
    require_model(model, params.episode.max_prompt_tokens + params.episode.max_response_tokens)
    from tasks.evaluation.vllm_engine import Engine

    rows = pd.read_parquet(validation).head(episodes).to_dict("records")
    say(f"starting vLLM with {model}")
    engine = Engine(model, params.episode, max_seqs=len(rows), seed=params.seed)
    with serving(params.tools, episode=params.episode, retrieval=params.retrieval, index=index, say=say) as tools:
        setup = open_setup(
            environment=params.environment,
            episode=params.episode,
            tools=tools,
            retrieval=params.retrieval,
            index=index,
            tokenizer=engine.tokenizer,
        )
        longest = max(len(setup.chat.prompt_ids(row["prompt"])) for row in rows)
        if longest > params.episode.max_prompt_tokens:
            raise InputError(
                f"with this model's tokenizer a prompt has {longest} tokens, more than episode.max_prompt_tokens",
                where=str(model),
                mend="raise that parameter",
            )
        trajectories = engine.play(rows, setup=setup)
    say(f"comparing {len(trajectories)} episodes with transformers")
    aside = out.with_name(f".{out.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    check = SanityCheck(str(model), str(aside / "verdicts"), len(rows), params.rl.sanity.max_logprob_diff)
    for number, trajectory in enumerate(trajectories):
        check.check(number, trajectory)
    text, passed = report(check.verdicts(), check), bool(check.summary()["passed"])
    write_text_aside(aside / "report.txt", f"{text}\n")
    played = [{"question": one.question, "stop_reason": one.stop_reason, "text": one.text} for one in trajectories]
    write_text_aside(aside / "episodes.jsonl", "".join(f"{json.dumps(one)}\n" for one in played))
    shutil.rmtree(out, ignore_errors=True)
    os.replace(aside, out)
    say(f"{out}/report.txt:\n{text}")
    return passed
