"""From questions to demonstrations in every protocol, on a small world: the stages themselves, one after the other."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from tasks import demos, index, ingest, policy, validate
from tasks.agent import protocols
from tasks.agent.demonstrations import form
from tasks.training.sft_dataset import demonstration_ids

pytestmark = pytest.mark.slow

WORLD = {
    "reader": "world",
    "people": {"train": 60, "validation": 10, "test": 10},
    "questions": {"train": 100, "validation": 12, "test": 12},
    "kinds": {"one-hop": 0.5, "two-hop": 0.5},
}
PROMPTS = {
    "search-r1": "Search, then answer.\nQuestion: {question}",
    "research": {"system": "You may use {tools} {example}", "user": "Question: {question}"},
    "hermes": "You may call {tools}\nQuestion: {question}",
    "qwen3_coder": {"system": "You may call {tools} {example}", "user": "Question: {question}"},
}


@pytest.mark.parametrize("name", list(PROMPTS))
def test_stages_from_questions_to_demonstrations(make_stage, monkeypatch, name: str) -> None:
    sections = {
        "episode": {
            "protocol": name, "prompt": PROMPTS[name], "max_prompt_tokens": 320, "max_response_tokens": 512,
            "example_answer": "Oslo" if "{example}" in str(PROMPTS[name]) else None,
        },
        "ingest": {"sources": [WORLD]},
        "policy": {
            "architecture": {"hidden_size": 32, "layers": 1, "heads": 2, "kv_heads": 1, "vocabulary": 512},
            "pretraining": {"batch_tokens": 1024, "phases": [{"text": "reading", "steps": 1, "sequence_length": 128}]},
        },
        "index": {"recall_questions": 4},
        "demos": {"questions": 20, "validation": 4, "give_up": 0.3},
        "sft": {"batch_size": 4},
    }  # fmt: skip
    for stage in (ingest, policy, validate, index, demos):
        made = make_stage(stage.__name__.removeprefix("tasks."), **sections)
        monkeypatch.setattr(made.track, "log_figures", lambda figures, step=None: None, raising=False)
        figures = stage.run(made)
    assert (figures["n"], figures["validation"], figures["dropped"]) == (20, 4, {})
    rows = pq.read_table("data/demos/train.parquet").to_pylist()
    protocol, tokenizer = protocols.create(name, ["search"]), AutoTokenizer.from_pretrained("data/policy/model")
    for row in rows:
        schemas = json.loads(row["tools"]) if protocol.calls_tools_by_schema else []
        ids, mask = demonstration_ids(tokenizer, row["prompt"], row["segments"], schemas)
        assert len(ids) <= 320 + 512
        turns = [one["text"].removesuffix(tokenizer.eos_token) for one in row["segments"] if one["loss"]]
        kinds = [protocol.action(turn).kind for turn in turns]
        assert kinds == ["calls"] * (len(turns) - 1) + ["answer"] and len(turns) >= 2
        # What SFT teaches is what the policy would have to generate, end tokens included.
        taught = tokenizer.decode([token for token, of in zip(ids, mask, strict=True) if of])
        ends = tokenizer.eos_token if protocol.ends_turn else ""
        assert taught == ends.join(turns) + tokenizer.eos_token
        assert row["gave_up"] or form.found_answer(taught, row["golden_answers"])
        asked = "".join(message["content"] for message in row["prompt"])
        assert row["question"] in asked and not {"{tools}", "{example}", "{question}"} & set(asked.split())
        if name == "research" and not row["gave_up"]:
            (answer,) = protocol.answers(turns[-1])
            numbers = protocol.citations(answer)[1]
            assert len(numbers) == row["hops"] == len(protocol.facts("".join(turns)))
    assert Path("data/validate/passed.json").is_file()
