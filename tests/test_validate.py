import json
from pathlib import Path

import pandas as pd
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tasks import ingest, validate
from tasks.errors import InputError

WORLD = {
    "reader": "world",
    "people": {"train": 60, "validation": 8, "test": 12},
    "questions": {"train": 100, "validation": 8, "test": 12},
    "kinds": {"one-hop": 0.5, "two-hop": 0.5},
}
PROMPT = {"prompt": "Question: {question}"}


def make_policy(folder: Path) -> None:
    """A tokenizer that gives each word, and each mark, one token: `Question : Who employs Karo ?` is six."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?")
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    fast.save_pretrained(folder)


def prepare(make_stage, shuffle: bool, max_prompt_tokens: int):
    make_policy(Path("data/policy/model"))
    settings = {"sources": [WORLD], "shuffle": shuffle}
    top = {"ingest": settings, "episode": {**PROMPT, "max_prompt_tokens": max_prompt_tokens}}
    ingest.run(make_stage("ingest", **top))
    return make_stage("validate", **top, validate={"window": 32, "max_share_gap": 0.4})


def test_good_data_pass_with_their_figures(make_stage):
    # The longest question: `Which city is the employer of NAME based in ?` is ten, after `Question :`.
    stage = prepare(make_stage, shuffle=True, max_prompt_tokens=12)
    figures = validate.run(stage)
    assert figures["passed"] is True
    assert json.loads((stage.out / "passed.json").read_text()) == {"passed": True}
    assert (stage.out / "docs" / "index.html").is_file()
    assert stage.track.artifacts == ["docs"]
    assert figures["leaked_questions"] == 0
    assert 1 < figures["longest_run"] <= figures["longest_run_allowed"] < 50
    assert 0 < figures["max_window_gap"] <= 0.4
    assert all(set(one) == {"name", "passed", "observed", "where"} for one in figures["expectations"])
    assert {one["where"].split(",")[0] for one in figures["expectations"]} == {
        f"data/ingest/{split}.parquet" for split in ("train", "validation", "test")
    }


def test_rows_in_blocks_and_long_prompts_are_refused(make_stage):
    stage = prepare(make_stage, shuffle=False, max_prompt_tokens=11)
    with pytest.raises(InputError) as refused:
        validate.run(stage)
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith("data/ingest/train.parquet: failed: train: expect_no_long_single_source_run: ")
    assert "longest single-source run: 50 of world-one-hop, rows 0 to 49; chance allows " in line
    assert "worst window: rows 0 to 31, world-one-hop with a share of 1.000 against 0.500 overall" in line
    assert "also failed: train: expect_column_values_to_be_between (prompt_tokens)" in line
    assert "set `ingest.shuffle: true`" in line
    assert "report: .forager/validate/docs/index.html" in line
    assert "FAILED" in Path(".forager/validate/docs/index.html").read_text()
    assert not (stage.out / "passed.json").exists()


def test_prompts_are_measured_with_the_tokenizer_that_the_other_stages_get(tmp_path):
    make_policy(tmp_path)
    question = "Question: Who employs Karo?"
    frame = pd.DataFrame({"prompt": [[{"role": "user", "content": question}]]})
    assert validate._prompt_lengths({"train": frame}, tmp_path) == {"train": [6]}
    # For this type transformers takes Qwen2's own tokenizer, whatever class was saved.
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    tokens = AutoTokenizer.from_pretrained(tmp_path).encode(question)
    assert len(tokens) != 6
    assert validate._prompt_lengths({"train": frame}, tmp_path) == {"train": [len(tokens)]}
