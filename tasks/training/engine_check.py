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
from typing import TYPE_CHECKING, Any

import pandas as pd

from tasks.agent.setup import open_setup
from tasks.agent.toolbox.serving import serving
from tasks.errors import InputError
from tasks.files import write_text_aside
from tasks.params import Playing
from tasks.training.sanity import SanityCheck
from tasks.training.sanity_report import report

if TYPE_CHECKING:
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase


DTYPES = ("float32", "bfloat16", "float16")


def open_tokenizer(model: Path, tokens: int) -> PreTrainedTokenizerBase:
    """The tokenizer of a model that both vLLM and transformers can play with; its weights are loaded once and dropped.

    Args:
        model: the folder.
        tokens: of the longest episode.

    Raises:
        InputError: a part of the model is missing or broken, its dtype is not named or none that vLLM runs in, its
            embeddings are fewer than its tokens, or its context is shorter than an episode.
    """
    mend = "name a folder such as data/sft/model, or bring a model in by policy.source"
    config = model / "config.json"
    if not config.is_file() or not list(model.glob("*.safetensors")):
        raise InputError("no model in Hugging Face's form: config.json and *.safetensors", where=str(model), mend=mend)
    if not (model / "tokenizer_config.json").is_file():
        raise InputError("no tokenizer beside the weights", where=str(model), mend=mend)
    from tasks.training.policies import from_folder

    loaded, tokenizer = from_folder(str(model), str(model))
    dtype = json.loads(config.read_text(encoding="utf-8")).get("dtype")
    if dtype not in DTYPES:
        raise InputError(f"the weights' dtype is {dtype!r}, none of {', '.join(DTYPES)}", where=str(config), mend=mend)
    rows = loaded.get_input_embeddings().weight.shape[0]
    if rows < len(tokenizer):
        raise InputError(
            f"the tokenizer has {len(tokenizer)} tokens, the model embeddings of {rows}", where=str(model), mend=mend
        )
    positions = getattr(loaded.config, "max_position_embeddings", None)
    if positions is not None and positions < tokens:
        raise InputError(
            f"max_position_embeddings {positions} is less than an episode's {tokens} tokens",
            where=str(config),
            mend="lower episode.max_response_tokens or episode.max_prompt_tokens",
        )
    return tokenizer


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
    tokens = params.episode.max_prompt_tokens + params.episode.max_response_tokens
    tokenizer = open_tokenizer(model, tokens)
    rows = pd.read_parquet(validation).head(episodes).to_dict("records")
    with serving(Playing.of(params), index=index, say=say) as playing:
        setup = open_setup(playing, index=index, tokenizer=tokenizer)
        longest = max(len(setup.chat.prompt_ids(row["prompt"])) for row in rows)
        if longest > params.episode.max_prompt_tokens:
            raise InputError(
                f"with this model's tokenizer a prompt has {longest} tokens, more than episode.max_prompt_tokens",
                where=str(model),
                mend="raise that parameter",
            )
        from tasks.evaluation.vllm_engine import Engine

        say(f"starting vLLM with {model}")
        engine = Engine(model, params.episode, max_seqs=len(rows), seed=params.seed)
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
