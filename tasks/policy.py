"""Stage `policy`: the initial model.

The default is made from scratch: a Qwen2 of about a million parameters with a tokenizer trained on the
corpus. It is pre-trained on generated text in which fresh names are repeated, since copying a name out of
a passage is what a small model needs longest to learn. Other policies come by `policy.source`.
"""

from __future__ import annotations

import random

import pandas as pd

from tasks.agent.protocol import PROTOCOLS
from tasks.contract import Figures, Stage, main
from tasks.qa.world import practice_text


def run(stage: Stage) -> Figures:
    from tasks.training import policies
    from tasks.training.pretraining import PackedText, pretrain
    from tasks.training.tokenizer import train_tokenizer

    settings, episode = stage.params.policy, stage.params.episode
    figures: Figures = {"source": settings.source}
    if settings.source == "scratch":
        corpus = pd.read_parquet(stage.input("ingest", "corpus.parquet"))
        questions = pd.read_parquet(stage.input("ingest", "train.parquet"))
        rng = random.Random(stage.params.seed)
        plan = settings.pretraining
        practice = practice_text(rng, max(1, plan.steps * plan.batch_size // 2))
        prompts = [message["content"] for prompt in questions["prompt"] for message in prompt]
        texts = [*corpus["title"], *corpus["text"], *prompts, *practice[:5000]]
        tags = PROTOCOLS[episode.protocol].tokens
        tokenizer = train_tokenizer(texts, settings.architecture.vocabulary, tags)
        positions = episode.max_prompt_tokens + episode.max_response_tokens
        policy = policies.from_scratch(settings.architecture, tokenizer, positions, stage.params.seed)
        stage.say(f"made from scratch, {len(tokenizer)} tokens")
        if plan.steps:
            data = PackedText(practice, tokenizer, plan.sequence_length)
            loss = pretrain(
                policy[0],
                data,
                plan,
                stage.params.seed,
                stage.say,
                lambda step, value: stage.track.log_figures({"pretraining": {"loss": value}}, step=step),
            )
            figures["pretraining_loss"] = loss
    else:
        policy = policies.from_source(settings.source)
        stage.say(f"loaded from {settings.source}")
    figures["parameters"] = policies.save(policy, stage.out / "model", settings.dtype)
    figures["vocabulary"] = len(policy[1])
    figures["dtype"] = settings.dtype
    return figures


if __name__ == "__main__":
    main("policy", run)
