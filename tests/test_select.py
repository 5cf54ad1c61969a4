"""`python -m tasks.select` on a rollout log as stage rl writes it, with MLflow in SQLite."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import select, tracking
from tasks.errors import InputError
from tasks.qa.sources import registry, source_keys
from tasks.qa.sources.base import Context
from tasks.selection import curves


def play(step: int, **successes: str) -> None:
    """Write a step's rollouts; a letter an episode: 1 succeeds."""
    rows = [
        {
            "step": step, "question_id": name, "sample": n, "success": float(letter), "data_source": "made",
            "question": f"{name}?", "golden_answers": ["Rove"], "hops": 2, "reward": 9.9,
        }
        for name, letters in successes.items()
        for n, letter in enumerate(letters)
    ]  # fmt: skip
    folder = Path("data/rl/rollouts")
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"train_{step:05d}.parquet")


def run_of_two_epochs() -> None:
    """Means of the epochs: .5 and .75 (three questions)."""
    play(1, mean="10", early="11")
    play(2, late="00")
    play(3, mean="1110", early="10")
    play(4, late="11")
    play(5, mean="00")  # the third epoch begins


@pytest.fixture
def log(workspace: Path) -> Path:
    run_of_two_epochs()
    # A validation is no visit.
    pd.DataFrame({"question_id": ["v"]}).to_parquet("data/rl/rollouts/validation_00002.parquet")
    return workspace


def test_epochs_are_counted_by_visits(log) -> None:
    found = curves.read(Path("data/rl/rollouts"))
    assert found.ids == ("early", "late", "mean")
    assert found.shares.tolist() == [[1.0, 0.5], [0.0, 1.0], [0.5, 0.75]]
    assert (found.short, found.late) == (0, 1)


def test_a_question_with_fewer_visits_is_left_out_and_takes_no_epoch_from_the_others(workspace) -> None:
    names = {f"q{n}": "10" for n in range(9)}
    play(1, **names, short="11")
    play(2, **names)
    found = curves.read(Path("data/rl/rollouts"))
    assert len(found.ids) == 9 and "short" not in found.ids
    assert (found.shares.shape[1], found.short, found.late) == (2, 1, 0)


@pytest.mark.parametrize("content", [b"", b"broken", b"PAR1" * 9])
def test_a_broken_log_is_refused_with_its_table(log, capsys, content) -> None:
    Path("data/rl/rollouts/train_00002.parquet").write_bytes(content)
    with pytest.raises(SystemExit, match="2"):
        select.main([])
    said = capsys.readouterr().err
    assert said.startswith("select: error: data/rl/rollouts/train_00002.parquet: cannot be read: ")
    assert said.count("\n") == 1


def test_a_table_that_is_no_log_is_refused(log) -> None:
    pd.DataFrame({"a": [1]}).to_parquet("data/rl/rollouts/train_00002.parquet")
    with pytest.raises(InputError, match=r"train_00002\.parquet: cannot be read: No match for FieldRef"):
        curves.read(Path("data/rl/rollouts"))


@pytest.mark.parametrize("out", ["", "data", "params/tiny.yaml/x.jsonl"])
def test_what_cannot_be_written_is_refused_before_any_work(log, capsys, out) -> None:
    before = sorted(log.rglob("*"))
    with pytest.raises(SystemExit, match="2"):
        select.main(["--out", out])
    assert f"argument --out: {out!r} " in capsys.readouterr().err and sorted(log.rglob("*")) == before


def test_a_run_of_fewer_than_two_epochs_is_refused_with_what_it_needs(workspace) -> None:
    play(1, a="10", b="11")
    play(2, c="10", d="11")
    play(3, a="10", b="11")
    with pytest.raises(InputError) as caught:
        curves.read(Path("data/rl/rollouts"))
    assert str(caught.value) == (
        "data/rl/rollouts: 2 whole epochs are needed, and it has 1: 6 visits of 4 questions in 3 steps, "
        "1.5 a question; raise rl.steps to 4, or name fewer questions in demos.rl_questions"
    )
    # Two more questions have not been reached yet.
    with pytest.raises(InputError, match=r"and it has 0: 6 visits of 6 questions in 3 steps, 1\.0 a .*rl\.steps to 6"):
        curves.read(Path("data/rl/rollouts"), asked=6)


def test_no_log_is_wrong_input(workspace) -> None:
    with pytest.raises(InputError, match=r"data/rl/rollouts: no rollouts of training steps; run `dvc repro rl`"):
        curves.read(Path("data/rl/rollouts"))


def settings(log: Path, text: str) -> None:
    (log / "params/mine.yaml").write_text(f"extends: tiny\n{text}\n")
    (log / "params/profile.yaml").write_text("profile: mine\n")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_selection_is_a_data_set(log, capsys, question_row) -> None:
    row = question_row("mean?", ["Rove"], ["T", "U"], ["p1", "p2"], id="mean", type="bridge")
    del row["extra_info"]["tools_kwargs"]
    Path("data/ingest").mkdir()
    pq.write_table(pa.Table.from_pylist([row]), "data/ingest/train.parquet")
    settings(log, "select: {share: 0.6}")
    assert select.main([]) == 0
    # Impacts 1 of `mean`, 0 of the two others, of which the first by id is taken.
    assert lines(select.LIMR) == [
        {
            "id": "mean", "data_source": "made", "question": "mean?", "golden_answers": ["Rove"], "hops": 2,
            "type": "bridge", "supporting_titles": ["T", "U"], "gold_passage_ids": ["p1", "p2"], "impact": 1.0,
        },
        {
            "id": "early", "data_source": "made", "question": "early?", "golden_answers": ["Rove"], "hops": 2,
            "impact": 0.0,
        },
    ]  # fmt: skip
    said = capsys.readouterr().out
    assert "3 questions in 2 whole epochs; 0 with fewer visits are left out, 1 later visits are not counted" in said
    assert "success by epoch, all: 0.50 > 0.75\n" in said
    assert "success by epoch, taken: 0.75 > 0.62\n" in said and "others: 0.00 > 1.00\n" in said
    assert "2 of 3 questions taken (the best 0.6)" in said
    assert "1 of them are not in data/ingest/train.parquet" in said
    run = tracking.find_run(runs()[0])
    assert (run.tags["stage"], run.metrics["taken"], run.params["select.share"]) == ("select", 2.0, "0.6")
    assert str(select.LIMR) in run.data


def runs() -> list[str]:
    return [run.info.run_id for run in tracking.connect().search_runs(output_format="list")]


def test_ingest_reads_the_selection(log) -> None:
    settings(log, "select: {theta: 0.0}")
    select.main([])
    keys = {"reader": "jsonl", "name": "limr", "path": "limr.jsonl", "split": "train"}
    context = Context(select.LIMR.parent, 1, None, set())
    found = list(registry()["jsonl"](source_keys(keys, "ingest.sources.0"), context).items())
    assert [(one.id, one.question, one.data_source, one.hops) for one in found] == [
        ("mean", "mean?", "made", 2),
        ("early", "early?", "made", 2),
        ("late", "late?", "made", 2),
    ]


def test_questions_that_never_fill_a_step_take_no_epoch_from_the_others(log) -> None:
    """Three questions of 5 rows were reached, in steps of 3; steps of 2 would have reached a fourth one."""
    Path("data/demos").mkdir()
    pq.write_table(pa.table({"n": range(5)}), select.RL_TRAIN)
    settings(log, "rl: {prompts: 3, micro_batch_size: 24}")
    assert select.main([]) == 0
    settings(log, "rl: {prompts: 2}")
    with pytest.raises(SystemExit, match="2"):
        select.main([])


def test_a_control_has_the_size_of_the_selection(log, capsys) -> None:
    settings(log, "select: {theta: 0.5}")
    select.main([])
    select.main(["--random"])
    assert len(lines(select.LIMR)) == len(lines(select.RANDOM)) == 1
    assert "1 drawn at random, as many as the selection has (impact >= 0.5: 1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [("select: {theta: 1}", None), ("select: {theta: 0.5}\nrl: {steps: 1}", "validate_every")],
)
def test_exit_codes(log, capsys, text: str, told: str | None) -> None:
    settings(log, text)
    if told is None:
        assert select.main([]) == 0
        return
    with pytest.raises(SystemExit, match="2"):
        select.main([])
    assert told in capsys.readouterr().err


def test_where_nothing_reaches_the_threshold_nothing_is_written(workspace, capsys) -> None:
    for step in (1, 2):
        play(step, a="1100", b="1110", c="1000", d="0000")  # means .375: the nearest are .125 away
    settings(workspace, "select: {theta: 0.99}")
    with pytest.raises(SystemExit, match="2"):
        select.main([])
    # 1 - 2 (.125)^2 / (2 (.625)^2) = .96
    assert capsys.readouterr().err == (
        "select: error: select.theta: no question has an impact of at least 0.99; the highest is 0.960; "
        "lower it, or set select.share\n"
    )
    assert not select.LIMR.exists()


def test_questions_that_nothing_tells_apart_are_refused(workspace, capsys) -> None:
    for step in (1, 2):
        play(step, a="11", b="11")
    with pytest.raises(SystemExit, match="2"):
        select.main([])
    assert "all 2 questions have the same impact, 0: nothing tells them apart" in capsys.readouterr().err
