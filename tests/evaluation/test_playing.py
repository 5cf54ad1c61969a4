"""Evaluations by the real vLLM: one engine and two, in one go and in pieces."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tasks.errors import InputError
from tasks.evaluation import playing, repeats
from tasks.evaluation.jobs import Model
from tasks.evaluation.playing import Table, play
from tasks.params import Playing
from tasks.params.judging import Evaluate
from tasks.processes import CommandError

ROOT = Path(__file__).parents[2]


def test_no_question_is_refused(tmp_path, defaults, question_row) -> None:
    rows = pd.DataFrame([question_row("Q?", ["a"], ["T"], ["p"])]).head(0)
    rows.to_parquet(tmp_path / "test.parquet")
    table = Table(tmp_path / "test.parquet", tmp_path, Playing.of(defaults), 0)
    with pytest.raises(InputError, match="no question to evaluate"):
        play([Model(name="rl", folder=tmp_path)], table, defaults.evaluate, folder=tmp_path, say=print)


def test_engines_get_a_gpu_each(monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert playing._devices(3) == [{}, {}, {}]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert playing._devices(2) == [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, 3")
    assert playing._devices(2) == [{"CUDA_VISIBLE_DEVICES": "5"}, {"CUDA_VISIBLE_DEVICES": "3"}]
    with pytest.raises(InputError, match="3 engines need a GPU each, there are 2"):
        playing._devices(3)


@pytest.fixture
def evaluation(
    make_model: Callable[..., Path], build_index, question_row, defaults, tmp_path, monkeypatch
) -> Callable[..., Any]:
    """Plays seven questions with two models and a champion, three in a shard; says what was said too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    names = ["Kashi", "Lomo", "Bedu", "Rano", "Tivo", "Mela", "Sogu"]
    index = build_index(tmp_path / "index", [(n, n, f"{n} was born in Rove.", None) for n in names])
    rows = [question_row(f"Where was {n} born?", ["Rove"], [n], [n], id=n) for n in names]
    pd.DataFrame(rows).drop(columns="extra_info").assign(
        extra_info=[{k: v for k, v in row["extra_info"].items() if k != "tools_kwargs"} for row in rows]
    ).to_parquet(tmp_path / "test.parquet")
    sections = Playing.of(defaults)
    episode = {
        "prompt": "{question}", "max_turns": 3, "max_prompt_tokens": 64, "max_response_tokens": 192,
        "max_turn_tokens": 40, "max_observation_tokens": 48,
    }  # fmt: skip
    sections = sections.model_copy(update={"episode": sections.episode.model_copy(update=episode)})
    models = [
        Model(name="base", folder=make_model(seed=1)),
        Model(name="champion", folder=make_model(seed=3), digest="c0"),
        Model(name="rl", folder=make_model(seed=2)),
    ]

    def run(name: str, *, index: Path = index, models: list[Model] = models, **more: Any) -> tuple[Any, list[str]]:
        asked = {"max_seqs": 3, "questions": 7, "batch_check": {"questions": 4, "max_seqs": [1]}, **more}
        settings = Evaluate.model_validate(defaults.evaluate.model_dump() | asked)
        said: list[str] = []
        table = Table(tmp_path / "test.parquet", index, sections, 0)
        return play(models, table, settings, folder=tmp_path / name, say=said.append), said

    return run


def hashes(played: playing.Played) -> dict[str, str]:
    found = repeats.repeat_figures(played.frame())
    return {model: figures["answers_sha256"] for model, figures in found.items()}


@pytest.mark.slow
def test_in_pieces_and_by_two_engines_the_answers_are_the_same(evaluation, tmp_path) -> None:
    sampling = {"pass_at": {"k": [2], "samples": 2, "temperature": 1.0}}
    whole, said = evaluation("whole", **sampling)
    frame = whole.frame()
    assert list(dict.fromkeys(frame["model"])) == ["base", "champion", "rl"] and len(frame) == 3 * 7
    assert len(set(hashes(whole).values())) == 3
    assert list(frame["question_id"][:7]) == list(frame["question_id"][7:14]) == list(frame["question_id"][14:])
    assert len(whole.sampled) == 3 * 7 * 2 and list(whole.smaller) == [1] and len(whole.smaller[1]) == 4
    assert set(whole.seconds) == {"base", "champion", "rl"} and min(whole.seconds.values()) > 0
    assert said.count("starting vLLM") == 2  # a champion's engine is its own

    # A kill leaves some parts; the others are played, and nothing else.
    kept = tmp_path / "whole" / "base" / "greedy" / "000000.parquet"
    before = kept.stat().st_mtime_ns
    for part in ("base/greedy/000003", "rl/greedy/000006", "rl/sampled/000000"):
        (tmp_path / "whole" / f"{part}.parquet").unlink()
    resumed, said = evaluation("whole", **sampling)
    assert kept.stat().st_mtime_ns == before
    assert said[0] == "17 of 20 parts were finished by an earlier run" and len(said) == 2 + 3
    assert hashes(resumed) == hashes(whole)
    assert list(resumed.sampled["text"]) == list(whole.sampled["text"])

    two, said = evaluation("two", engines=2, **sampling)
    assert "starting vLLM 2 times" in said
    assert hashes(two) == hashes(whole)
    assert list(two.sampled["text"]) == list(whole.sampled["text"])
    assert list(two.frame()["response_ids"].map(list)) == list(frame["response_ids"].map(list))


@pytest.mark.slow
def test_what_a_player_finds_wrong_is_told_as_the_stages_own(evaluation, tmp_path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="none"):
        evaluation("wrong", index=tmp_path / "none")


@pytest.mark.slow
def test_a_broken_model_ends_all_engines(evaluation, make_model, tmp_path) -> None:
    broken = make_model(seed=5)
    (broken / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(CommandError, match=r"player-\d\.log"):
        evaluation("broken", models=[Model(name="rl", folder=broken)], engines=2)
