import json
from pathlib import Path

import pytest

from tasks.agent.environments import environment_params
from tasks.agent.trajectory import Trajectory
from tasks.params.algorithm import SoftOverlong
from tasks.processes import CommandError
from tasks.training import rl_run
from tasks.training.checkpoints import TRACKER, RunFolder
from tasks.training.rollouts import append
from tasks.training.steps import read_steps

VERDICT = {
    "passed": False,
    "tokens": 1,
    "max_logprob_diff": 1.0,
    "disagreements": 1,
    "first": {
        "question": "Who?", "position": 0, "turn": 1, "position_in_turn": 0, "context": "Who?",
        "token": {"id": 1, "text": "Kashi"}, "engine_logprob": -0.5, "transformers_logprob": -1.5,
        "choice": {"id": 2, "text": "Rove"}, "choice_logprob": -0.1, "vocabulary": 9,
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "checkpoints" / "f")


def test_kept_checkpoint_is_the_actors_weights_alone(folder: RunFolder, tmp_path: Path) -> None:
    actor = folder.checkpoint(4) / "actor"
    (actor / "huggingface").mkdir(parents=True)
    (actor / "huggingface" / "config.json").write_text("{}")
    for name in ("model", "optim", "extra_state"):
        (actor / f"{name}_world_size_1_rank_0.pt").write_text(name)
    (actor / "fsdp_config.json").write_text("{}")
    (folder.checkpoint(4) / "data.pt").write_text("d")
    rl_run.keep_checkpoint(folder, 4, tmp_path / "kept")
    kept = sorted(str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert kept == ["fsdp_config.json", "huggingface/config.json", "model_world_size_1_rank_0.pt"]
    assert actor.exists()


def trajectory() -> Trajectory:
    return Trajectory("q", "search", "made", "Who?", ["a"], 1, [1])


class Verl:
    """Stands where verl's process stands: sees the command, writes steps, may fail the sanity check."""

    def __init__(self, folder: RunFolder, steps: range, verdict: dict | None = None, kl: dict | None = None) -> None:
        self.folder, self.steps, self.verdict = folder, steps, verdict
        self.data = {"critic/score/mean": 0.5, **{f"actor/{name}": value for name, value in (kl or {}).items()}}
        self.calls: list[tuple] = []

    def __call__(self, command, *, log, timeout, environment, on_poll) -> bool:
        self.calls.append((command, timeout, environment))
        for step in self.steps:
            split = "train" if step else "validation"
            append(self.folder.rollouts, trajectory(), step=step, split=split, sample=0)
            with self.folder.live_steps.open("ab") as file:
                file.write(json.dumps({"step": step, "data": self.data}).encode() + b"\n")
        if self.verdict:
            (self.folder.path / "sanity").mkdir(exist_ok=True)
            (self.folder.path / "sanity" / "0.json").write_text(json.dumps(self.verdict))
        on_poll()
        return False


def train(folder: RunFolder, defaults, five_rows: Path, verl: Verl, monkeypatch, rl=None):
    monkeypatch.setattr(rl_run, "run_supervised", verl)
    monkeypatch.setattr(rl_run, "engine_environment", dict)
    seen: list[int] = []

    def on_step(step: int, metrics: dict[str, float]) -> None:
        seen.append(step)
        # The step's rollouts are gathered, and their figures come with verl's.
        assert metrics["episode/stop/end" if step else "val-episode/stop/end"] == 1.0

    sanity = rl_run.train(
        folder,
        rl=rl or defaults.rl,
        verl={},
        episode=defaults.episode,
        shared={"retrieval": {}, "environment": {}, "episode": {}},
        model=Path("/m"),
        train_rows=Path("/t"),
        validation_rows=five_rows,
        index=Path("/i"),
        seed=3,
        dtype="float32",
        say=lambda text: None,
        on_step=on_step,
    )
    return sanity, seen


def test_a_run_follows_every_step_and_keeps_them(folder, defaults, five_rows, monkeypatch) -> None:
    verl = Verl(folder, range(defaults.rl.steps + 1))
    sanity, seen = train(folder, defaults, five_rows, verl, monkeypatch)
    assert seen == [step["step"] for step in read_steps(folder.steps)] == list(range(defaults.rl.steps + 1))
    assert sanity.episodes == 5  # as many as there are validation rows
    command, timeout, environment = verl.calls[0]
    assert timeout == 60 * defaults.rl.timeout_minutes
    assert environment["VERL_FILE_LOGGER_PATH"] == str(folder.live_steps)
    settings = json.loads((folder.path / "agent.json").read_text())
    assert settings["seed"] == 3 and settings["sanity"]["episodes"] == 5
    assert (settings["mask_observations"], settings["credit"], settings["environment"]) == (True, "trajectory", {})
    given = ("deadline_seconds", "fallback_reward", "no_loss_on")
    assert {name: settings[name] for name in given} == {name: getattr(defaults.rl, name) for name in given}
    assert any(f"agent_loop_config_path='{folder.path / 'agent_loop.yaml'}'" in part for part in command)


def test_a_failed_sanity_check_ends_the_run(folder, defaults, five_rows, monkeypatch) -> None:
    with pytest.raises(CommandError, match=r"(?s)sanity check before the first step.*'Rove'.*What it looks like"):
        train(folder, defaults, five_rows, Verl(folder, range(1), VERDICT), monkeypatch)


def test_a_run_that_verl_ends_itself_after_a_failed_check_shows_the_report_too(
    folder, defaults, five_rows, monkeypatch
) -> None:
    class Ends(Verl):
        def __call__(self, *args, on_poll, **kwargs) -> bool:
            super().__call__(*args, on_poll=lambda: False, **kwargs)
            raise CommandError("exited with status 1")

    with pytest.raises(CommandError, match=r"(?s)sanity check before the first step.*'Rove'"):
        train(folder, defaults, five_rows, Ends(folder, range(1), VERDICT), monkeypatch)
    with pytest.raises(CommandError, match="status 1"):
        train(folder, defaults, five_rows, Ends(folder, range(1)), monkeypatch)


def test_a_new_run_forgets_old_verdicts_and_a_resumed_one_keeps_them(folder, defaults, five_rows, monkeypatch) -> None:
    old = folder.path / "sanity" / "0.json"
    old.parent.mkdir()
    old.write_text('{"passed": true}')
    train(folder, defaults, five_rows, Verl(folder, range(2)), monkeypatch)
    assert not old.exists()
    old.parent.mkdir()
    old.write_text('{"passed": true}')
    folder.checkpoint(1).mkdir()
    (folder.checkpoints / TRACKER).write_text("1")
    train(folder, defaults, five_rows, Verl(folder, range(2, 4)), monkeypatch)
    assert old.exists()


def test_the_validation_that_a_resumed_run_begins_with_is_not_told_twice(
    folder, defaults, five_rows, monkeypatch
) -> None:
    _, seen = train(folder, defaults, five_rows, Verl(folder, range(3)), monkeypatch)
    assert seen == [0, 1, 2]
    folder.checkpoint(2).mkdir()
    (folder.checkpoints / TRACKER).write_text("2")
    _, seen = train(folder, defaults, five_rows, Verl(folder, range(2, 5)), monkeypatch)
    assert seen == [3, 4]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        # .02 is far above the first target, so by .2 of 128 rollouts / 1000, and 5 % above the second.
        (0.001, 0.002 * (1 + 0.2 * 128 / 1000)),
        (0.02 / 1.05, 0.002 * (1 + 0.05 * 128 / 1000)),
        (None, 0.001),
    ],
)
def test_a_resumed_run_goes_on_with_the_coefficient_that_the_kl_has_come_to(
    folder, defaults, five_rows, monkeypatch, target: float | None, expected: float
) -> None:
    kl = defaults.rl.kl.model_copy(update={"route": "reward", "target": target, "horizon": 1000})
    rl = defaults.rl.model_copy(update={"kl": kl})

    def coefficient(verl: Verl) -> float:
        train(folder, defaults, five_rows, verl, monkeypatch, rl=rl)
        (text,) = [part for part in verl.calls[0][0] if "kl_ctrl.kl_coef" in part]
        return float(text.partition("=")[2])

    assert coefficient(Verl(folder, range(2), kl={"reward_kl_penalty": 0.02, "reward_kl_penalty_coeff": 0.002})) == 1e-3
    folder.checkpoint(1).mkdir()
    (folder.checkpoints / TRACKER).write_text("1")
    assert coefficient(Verl(folder, range(2, 3))) == pytest.approx(expected)


def test_a_finished_run_starts_no_process(folder, defaults, five_rows, monkeypatch) -> None:
    last = defaults.rl.steps
    train(folder, defaults, five_rows, Verl(folder, range(last + 1)), monkeypatch)
    folder.checkpoint(last).mkdir()
    (folder.checkpoints / TRACKER).write_text(str(last))
    verl = Verl(folder, range(0))
    sanity, seen = train(folder, defaults, five_rows, verl, monkeypatch)
    assert verl.calls == [] and seen == [] and sanity.episodes == 5


def test_what_rl_adds_to_the_reward_follows_the_budgets(defaults) -> None:
    plain = defaults.environment.model_dump()
    assert rl_run.reward_of_rl(plain, defaults.rl, defaults.episode) is plain
    rl = defaults.rl.model_copy(update={"soft_overlong": SoftOverlong(weight=0.5, share=0.2)})

    def part(**budget: int) -> dict:
        episode = defaults.episode.model_copy(update=budget)
        section = rl_run.reward_of_rl(plain, rl, episode)
        environment_params(defaults.environment.model_validate(section))  # which the agent loop will do
        assert section | {"reward": plain["reward"]} == plain
        return section["reward"]["soft_overlong"]

    assert part(max_turns=4, max_turn_tokens=100, max_response_tokens=1000) == {
        "weight": 0.5, "max_tokens": 400, "cache_tokens": 80,
    }  # fmt: skip
    assert part(max_turns=40, max_turn_tokens=100, max_response_tokens=1000)["max_tokens"] == 1000
    assert part(max_turns=1, max_turn_tokens=2, max_response_tokens=9)["cache_tokens"] == 1
