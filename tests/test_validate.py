import json
import random
import runpy
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tasks import validate
from tasks.agent.chat import Chat
from tasks.errors import InputError

ROOT = Path(__file__).parents[1]
PLAIN = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
COUNTS = {"train": 100, "validation": 8, "test": 12}


def make_policy(folder: Path, template: str = PLAIN) -> None:
    """A tokenizer that gives each word, and each mark, one token: `Question : Who employs Karo ?` is six."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?", eos_token="?")
    fast.chat_template = template
    fast.save_pretrained(folder)


@pytest.fixture
def make_tables(question_row, write_corpus):
    """Writes what ingest would: questions of two sources, `Question: In SPLIT, who has SPLIT N?` is ten tokens."""

    def make(folder: Path, shuffle: bool) -> None:
        passages = []
        for split, count in COUNTS.items():
            rows = []
            for number in range(count):
                identity = f"{split}{number}"
                passages.append((identity, "t", "x", None))
                source = "odd" if number < count // 2 else "even"
                question = f"In {split}, who has {split} {number}?"
                rows.append(question_row(question, ["x"], ["t"], [identity], id=identity, data_source=source))
            if shuffle:
                random.Random(0).shuffle(rows)
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{split}.parquet")
        write_corpus(folder / "corpus.parquet", passages)

    return make


@pytest.fixture
def prepare(make_stage, make_tables):
    """The stage over such tables; `logged` gets the figures that the stage logs itself."""

    def prepared(shuffle: bool, max_prompt_tokens: int, logged: list, episode: dict | None = None, **settings):
        of_episode = {"prompt": "Question: {question}", "max_prompt_tokens": max_prompt_tokens, **(episode or {})}
        stage = make_stage("validate", episode=of_episode, validate=settings)
        make_policy(Path("data/policy/model"))
        make_tables(Path("data/ingest"), shuffle)
        stage.track.log_figures = logged.append
        return stage

    return prepared


def test_good_data_pass_with_their_figures(prepare, capsys):
    stage = prepare(shuffle=True, max_prompt_tokens=10, logged=[])
    figures = validate.run(stage)
    assert figures["passed"] is True
    assert json.loads((stage.out / "passed.json").read_text()) == {"passed": True}
    assert (stage.out / "docs" / "index.html").is_file()
    assert stage.track.artifacts == ["docs"]
    assert figures["leaked_questions"] == figures["warnings"] == 0
    assert 1 < figures["longest_run"] <= figures["longest_run_allowed"] < 50
    assert all(set(one) == {"name", "passed", "severity", "observed", "where"} for one in figures["expectations"])
    assert {one["where"] for one in figures["expectations"]} == {f"data/ingest/{split}.parquet" for split in COUNTS}
    assert figures["values"]["train"]["row-count"] == 100
    assert {"order", "schema", "leakage-exact", "leakage-near", "prompt-tokens"} <= set(figures["values"]["train"])
    assert "train 100 rows: 15 of 15 expectations hold" in capsys.readouterr().out


def test_rows_in_blocks_and_long_prompts_are_refused(prepare, capsys):
    logged: list = []
    stage = prepare(shuffle=False, max_prompt_tokens=9, logged=logged)
    with pytest.raises(InputError) as refused:
        validate.run(stage)
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(
        "data/ingest/train.parquet: failed: train: order: longest run: 50 rows of data_source odd, rows 0 to 49; "
        "chance allows "
    )
    assert "also failed: train: prompt-tokens, validation: prompt-tokens, test: prompt-tokens" in line
    assert "set ingest.shuffle: true" in line
    assert line.endswith("; every row: .forager/validate/findings.jsonl; report: .forager/validate/docs/index.html")
    assert "FAILED" in Path(".forager/validate/docs/index.html").read_text()
    assert not (stage.out / "passed.json").exists()
    assert (logged[0]["passed"], logged[0]["longest_run"]) == (False, 50)
    told = capsys.readouterr().out
    assert "error: train, prompt-tokens: 100 of 100 rows; first: row 0; raise episode.max_prompt_tokens" in told
    assert "error: train, order: run of data_source, from row 0 on\n" in told
    found = [json.loads(row) for row in Path(".forager/validate/findings.jsonl").read_text().splitlines()]
    assert {one["expectation"] for one in found} == {"prompt-tokens"}
    assert [one["row"] for one in found if one["table"] == "train"] == list(range(100))


def test_an_order_that_is_only_a_warning_goes_on(prepare):
    stage = prepare(shuffle=False, max_prompt_tokens=10, logged=[], severity={"order": "warning"})
    figures = validate.run(stage)
    assert (figures["passed"], figures["warnings"]) == (True, 1)
    assert figures["values"]["train"]["order"] > 0


def test_an_unknown_expectation_is_refused_with_the_parameters(make_stage):
    with pytest.raises(InputError, match=r"validate\.severity\.oder: no such expectation; the nearest is order"):
        make_stage("validate", validate={"severity": {"oder": "warning"}})


def test_prompts_are_measured_as_an_episode_begins_with_them(tmp_path, tokenizer, defaults):
    tokenizer.save_pretrained(tmp_path)
    prompts = [[{"role": "user", "content": text}] for text in ("Who?", "Who employs Karo? " * 40, "<think> é 東京")]
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    measure = validate.prompt_measure(tmp_path, defaults.episode, defaults.tools)
    assert measure(prompts) == [len(Chat(loaded).prompt_ids(prompt)) for prompt in prompts]
    assert measure([]) == []


def test_prompts_are_measured_with_the_tokenizer_that_the_other_stages_get(tmp_path, defaults):
    make_policy(tmp_path)
    question = "Question: Who employs Karo?"
    prompts = [[{"role": "user", "content": question}]]
    assert validate.prompt_measure(tmp_path, defaults.episode, defaults.tools)(prompts) == [6]
    # For this type transformers takes Qwen2's own tokenizer, whatever class was saved.
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    tokens = AutoTokenizer.from_pretrained(tmp_path).encode(question)
    assert len(tokens) != 6
    assert validate.prompt_measure(tmp_path, defaults.episode, defaults.tools)(prompts) == [len(tokens)]


SHOWS_TOOLS = (
    "{% for tool in tools or [] %}{{ tool.function.name }} {{ tool.function.description }}\n{% endfor %}"
    "{% for message in messages %}{{ message['content'] }}{% endfor %}"
)


def test_the_tools_schemas_are_measured_with_the_prompt(tmp_path, defaults):
    make_policy(tmp_path, SHOWS_TOOLS)
    prompts = [[{"role": "user", "content": "Question: Who employs Karo?"}]]
    hermes = defaults.episode.model_copy(update={"protocol": "hermes"})
    assert validate.prompt_measure(tmp_path, defaults.episode, defaults.tools)(prompts) == [6]
    # "search looks passages up": four words more.
    assert validate.prompt_measure(tmp_path, hermes, defaults.tools)(prompts) == [10]


def test_tools_that_neither_prompt_nor_template_names_are_refused(prepare):
    stage = prepare(shuffle=True, max_prompt_tokens=60, logged=[], episode={"protocol": "hermes"})
    with pytest.raises(InputError, match=r"^episode\.prompt: protocol hermes calls tools, and neither .*\{tools\}"):
        validate.run(stage)
    telling = {"protocol": "hermes", "prompt": "{tools} {question}"}
    assert validate.run(prepare(shuffle=True, max_prompt_tokens=60, logged=[], episode=telling))["passed"]


def test_empty_held_out_rows_are_refused(elsewhere, capsys):
    pq.write_table(pq.read_table("test.parquet")[:0], "empty.parquet")
    with pytest.raises(SystemExit, match="2"):
        validate.check_file(["--file", "train.parquet", "--held-out", "empty.parquet"])
    assert capsys.readouterr().err == (
        "validate: error: empty.parquet: holds no rows; name the questions that are held out\n"
    )


@pytest.fixture
def elsewhere(tmp_path, make_tables, monkeypatch):
    """A folder with parameters and a fairly shuffled train.parquet and test.parquet; no stage has run in it."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    make_tables(tmp_path, shuffle=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_made_elsewhere_is_checked_without_any_stage(elsewhere, capsys):
    validate.check_file(["--file", "train.parquet", "--held-out", "test.parquet"])
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "file 100 rows: 12 of 12 expectations hold",
        "held-out 12 rows: 6 of 6 expectations hold",
    ]
    assert (elsewhere / ".forager/validate/docs/index.html").is_file()
    assert (elsewhere / ".forager/validate/findings.jsonl").read_text() == ""
    with pytest.raises(SystemExit, match="2"):
        validate.check_file(["--file", "none.parquet"])
    assert capsys.readouterr().err == "validate: error: none.parquet: no such file; did you mean 'test.parquet'?\n"


def test_blocks_in_a_table_made_elsewhere_end_the_command_with_one_line(elsewhere, make_tables, monkeypatch, capsys):
    make_tables(elsewhere / "blocks", shuffle=False)
    monkeypatch.setattr(sys, "argv", ["validate", "--file", "blocks/train.parquet"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(validate.__file__, run_name="__main__")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("validate: error: blocks/train.parquet: failed: file: order: longest run: 50 rows of ")
    # An order is of the whole table: there are no rows to list.
    assert line.endswith("keep the result; report: .forager/validate/docs/index.html")


def test_every_held_out_question_in_a_table_made_elsewhere_is_listed(elsewhere, capsys):
    with pytest.raises(SystemExit, match="2"):
        validate.check_file(["--file", "train.parquet", "--held-out", "train.parquet"])
    said = capsys.readouterr()
    assert "train.parquet: failed: file: leakage-exact: 100 of 100 rows; first: row 0, " in said.err
    assert "; every row: .forager/validate/findings.jsonl; " in said.err
    assert "error: file, leakage-exact: 100 of 100 rows; first: row 0\n" in said.out
    assert "ingest" not in said.out + said.err
    found = [json.loads(line) for line in (elsewhere / ".forager/validate/findings.jsonl").read_text().splitlines()]
    leaks = [one for one in found if one["expectation"] == "leakage-exact"]
    assert [one["row"] for one in leaks] == list(range(100))
    assert all(f" is row {one['row']} of held-out, " in one["what"] for one in leaks)


def test_rows_by_which_there_are_only_warnings_are_listed_too(prepare, capsys):
    stage = prepare(shuffle=True, max_prompt_tokens=9, logged=[], severity={"prompt-tokens": "warning"})
    assert validate.run(stage)["warnings"] == 3
    assert "every row: data/validate/findings.jsonl\n" in capsys.readouterr().out
    assert len(Path("data/validate/findings.jsonl").read_text().splitlines()) == sum(COUNTS.values())
