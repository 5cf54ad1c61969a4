"""Stage `policy`: the initial model.

The default is made from scratch: a Llama of about half a million parameters with a tokenizer trained on the
corpus. It is pre-trained on practice text (`tasks/qa/practice.py`), since copying a name out of a passage is
what a small model needs longest to learn. Other policies come by `policy.source`.
"""

from __future__ import annotations

import random
from itertools import islice

import pandas as pd

from tasks.agent import prompts, protocols
from tasks.contract import Figures, Stage, main
from tasks.qa import practice


def run(stage: Stage) -> Figures:
    from tasks.training import policies
    from tasks.training.pretraining import packed, pretrain
    from tasks.training.tokenizer import frequent_words, message, train_tokenizer

    settings, episode = stage.params.policy, stage.params.episode
    figures: Figures = {"source": settings.source}
    corpus = pd.read_parquet(stage.input("ingest", "corpus.parquet"))
    questions = pd.read_parquet(stage.input("ingest", "train.parquet"))
    said = [message["content"] for prompt in questions["prompt"] for message in prompt]
    if settings.source == "scratch":
        protocol, plan = protocols.create(episode.protocol, stage.params.tools.names), settings.pretraining
        names = practice.spare_names(set(corpus["title"]))
        written = practice.Practice(random.Random(f"{stage.params.seed}:practice"), names, protocol, message)
        sample = [text for kind in practice.TEXTS for text in islice(written.documents(kind), 2000)]
        # Of the practice text and the prompt's own words: there no name is frequent.
        asked = prompts.of_params(episode, stage.params.tools).words
        words = frequent_words([*sample, *[asked] * len(sample)])
        texts = [*corpus["title"], *corpus["text"], *said, *sample]
        tokenizer = train_tokenizer(texts, settings.architecture.vocabulary, protocol.tokens, words)
        positions = episode.max_prompt_tokens + episode.max_response_tokens
        policy = policies.from_scratch(settings.architecture, tokenizer, positions, stage.params.seed)
        stage.say(f"made from scratch, {len(tokenizer)} tokens")
        if plan.phases:
            batches = [
                batch
                for phase in plan.phases
                for batch in packed(
                    written.documents(phase.text),
                    tokenizer,
                    phase.steps,
                    plan.batch_tokens // phase.sequence_length,
                    phase.sequence_length,
                )
            ]
            figures["pretraining_loss"] = pretrain(
                policy[0],
                batches,
                plan,
                stage.params.seed,
                stage.say,
                lambda step, value: stage.track.log_figures({"pretraining": {"loss": value}}, step=step),
            )
    else:
        policy = policies.from_source(settings.source)
        stage.say(f"loaded from {settings.source}")
    figures["parameters"] = policies.save(
        policy, stage.out / "model", settings.dtype, [*said[:200], *corpus["text"][:200]]
    )
    figures["vocabulary"] = len(policy[1])
    figures["dtype"] = settings.dtype
    return figures


if __name__ == "__main__":
    main("policy", run)
