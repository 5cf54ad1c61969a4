"""Benchmarks that are real commands, small ones."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import CrashError, InputError
from tasks.evaluation import outside
from tasks.evaluation.jobs import Model
from tasks.params.judging import Outside
from tasks.processes import MARK

ROOT = Path(__file__).parents[2]


def python(code: str, models: tuple[str, ...] = ("rl",), seconds: int = 60) -> Outside:
    command = [sys.executable, "-c", code, "{model}"]
    return Outside.model_validate({"command": command, "models": list(models), "seconds": seconds})


def run(tmp_path: Path, wanted: dict[str, Outside], said: list[str] | None = None) -> dict:
    folders = {"base": tmp_path / "base model", "rl": tmp_path / "rl"}
    models = {name: Model(name=name, folder=folder) for name, folder in folders.items()}
    outside.check(wanted, models)
    return outside.run(wanted, models, folder=tmp_path / "kept", say=[].append if said is None else said.append)


def test_scores_are_the_last_line_and_the_model_a_word_of_its_own(tmp_path: Path) -> None:
    code = "import sys, json; print('{\"em\": 9}'); print(json.dumps({'em': len(sys.argv[1]), 'n-2': 0.5})); print()"
    said: list[str] = []
    found = run(tmp_path, {"mine": python(code, ("base", "rl"))}, said)
    lengths = {model: float(len(str(tmp_path / folder))) for model, folder in (("base", "base model"), ("rl", "rl"))}
    assert found == {"mine": {model: {"em": length, "n-2": 0.5} for model, length in lengths.items()}}
    assert said[-1] == f"outside: mine of rl: em {lengths['rl']:g}, n-2 0.5"


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    wanted = python("import sys, json; print(json.dumps({'n': len(sys.argv)}))")
    wanted.command.append("$(touch made); *")
    assert run(tmp_path, {"mine": wanted}) == {"mine": {"rl": {"n": 3.0}}}
    assert not (tmp_path / "made").exists()


def test_what_is_said_on_stderr_is_no_score(tmp_path: Path) -> None:
    code = "import sys; print('{\"em\": 1}'); sys.stdout.flush(); print('warning', file=sys.stderr)"
    assert run(tmp_path, {"mine": python(code)}) == {"mine": {"rl": {"em": 1.0}}}


def test_a_finished_benchmark_is_not_run_again(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'runs')!r}, 'a').write('x'); print('{{\"em\": 1}}')"
    broken = {"mine": python(code), "other": python("raise SystemExit(3)")}
    with pytest.raises(CrashError):
        run(tmp_path, broken)
    assert run(tmp_path, {"mine": python(code), "other": python("print('{\"f1\": 1}')")})["mine"] == {"rl": {"em": 1.0}}
    assert (tmp_path / "runs").read_text() == "x"


def test_a_champion_of_another_content_is_measured_anew(tmp_path: Path) -> None:
    code = "import time; print('{\"ns\": %d}' % time.time_ns())"

    def score(digest: str) -> float:
        champion = Model(name="champion", folder=tmp_path, digest=digest)
        wanted = {"mine": python(code, ("champion",))}
        return outside.run(wanted, {"champion": champion}, folder=tmp_path / "kept", say=print)["mine"]["champion"][
            "ns"
        ]

    first = score("c0")
    assert score("c0") == first
    assert score("c1") > first


@pytest.mark.parametrize("own_session", [False, True])
def test_what_a_benchmark_leaves_running_is_ended(tmp_path: Path, gone, own_session: bool) -> None:
    code = (
        "import subprocess\n"
        f"child = subprocess.Popen(['sleep', '600'], stderr=subprocess.DEVNULL, start_new_session={own_session})\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid)); print('{{\"em\": 1}}')"
    )
    assert run(tmp_path, {"mine": python(code)}) == {"mine": {"rl": {"em": 1.0}}}
    child = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(child) or gone([psutil.Process(child)])


def test_a_program_that_cannot_be_started_is_told_in_one_line(tmp_path: Path) -> None:
    program = tmp_path / "bench"
    program.write_text("print(1)\n")
    program.chmod(0o755)
    wanted = python("").model_copy(update={"command": [str(program), "{model}"]})
    with pytest.raises(CrashError, match=r"^benchmark mine of rl: cannot be started: .*Exec format error.*$"):
        run(tmp_path, {"mine": wanted})


def test_last_words_are_cut(tmp_path: Path) -> None:
    with pytest.raises(CrashError) as caught:
        run(tmp_path, {"mine": python("import sys; sys.exit('x' * 1_000_000 + 'the end')")})
    assert str(caught.value).endswith("xthe end") and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; print('why', file=sys.stderr); sys.exit(3)", ["exited with status 3", "its last words:\nwhy"]),
        ("raise ValueError('broken')", ["exited with status 1", "ValueError: broken"]),
        ("pass", ["printed nothing"]),
        ("print('done')", ["its last line is not JSON: 'done'"]),
        ("print('[1]')", ["its last line is not {score: number, ...}: '[1]'"]),
        ("print('{}')", ["its last line is not {score: number, ...}: '{}'"]),
        ('print(\'{"em": "1"}\')', ["score 'em' is not a number: \"1\""]),
        ("print('{\"em\": true}')", ["score 'em' is not a number: true"]),
        ("print('{\"em\": null}')", ["score 'em' is not a number: null"]),
        ('print(\'{"em": {"mean": 1}}\')', ["score 'em' is not a number"]),
        ("print('{\"em\": NaN}')", ["score 'em' is not a finite number: nan"]),
        ("print('{\"em\": 1e999}')", ["score 'em' is not a finite number: inf"]),
        ("print('{\"em\": 1' + '0' * 400 + '}')", ["score 'em' is not a finite number"]),
        ("print('{\"acc,none\": 1}')", ["score 'acc,none' is not a name of letters, digits, - and _"]),
        ("import os; os.write(1, b'\\xff\\n')", ["its last line is not JSON"]),
    ],
)
def test_a_benchmark_that_fails_is_named_with_its_last_words(tmp_path: Path, code: str, words: list[str]) -> None:
    with pytest.raises(CrashError) as caught:
        run(tmp_path, {"mine": python(code)})
    told = str(caught.value)
    assert told.startswith("benchmark mine of rl: ") and all(word in told for word in words), told
    assert not list((tmp_path / "kept").glob("*.json"))


def test_one_that_takes_too_long_is_ended_with_its_children(tmp_path: Path, gone) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "print('waiting', file=sys.stderr); time.sleep(600)"
    )
    with pytest.raises(
        CrashError, match=r"benchmark mine of rl: ran past its limit of 3 s; .*\nits last words:\nwaiting"
    ):
        run(tmp_path, {"mine": python(code, seconds=3)})
    child = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(child) or gone([psutil.Process(child)])


def test_a_stage_that_is_ended_ends_its_benchmark(tmp_path: Path, gone) -> None:
    program = f"""
import signal, sys
from pathlib import Path
from tasks.contract import _turn_sigterm_into_exit
from tasks.evaluation import outside
from tasks.evaluation.jobs import Model
from tasks.params.judging import Outside
signal.signal(signal.SIGTERM, _turn_sigterm_into_exit)
code = "import os, time; open({str(tmp_path / "pid")!r}, 'w').write(str(os.getpid())); time.sleep(600)"
wanted = Outside(command=[sys.executable, "-c", code, "{{model}}"], models=["rl"], seconds=600)
models = {{"rl": Model(name="rl", folder=Path("x"))}}
outside.run({{"mine": wanted}}, models, folder=Path({str(tmp_path / "kept")!r}), say=print)
"""
    environment = {**os.environ, MARK: str(tmp_path)}
    stage = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment)
    try:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert stage.poll() is None
            time.sleep(0.05)
        child = psutil.Process(int((tmp_path / "pid").read_text()))
        assert os.getpgid(child.pid) != os.getpgid(stage.pid)
        stage.send_signal(signal.SIGTERM)
        assert stage.wait() == 128 + signal.SIGTERM
        assert gone([child])
    finally:
        stage.kill()


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("mine", {"models": ["sft"]}, "evaluate.outside.mine.models: no model 'sft'; there are: base, rl"),
        ("mine", {"command": ["true"]}, "evaluate.outside.mine.command: the command does not say which model: {model}"),
        ("mine", {"command": ["no-such-program", "{model}"]}, "mine.command: no program 'no-such-program'; install it"),
        ("my bench", {}, "evaluate.outside.my bench: not a name of a figure; use letters"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_played(tmp_path: Path, name, change, words) -> None:
    with pytest.raises(InputError) as caught:
        run(tmp_path, {name: python("").model_copy(update=change)})
    assert words in str(caught.value)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True), st.floats(allow_nan=False, allow_infinity=False), min_size=1
    )
)
def test_whatever_numbers_are_printed_are_read(scores: dict[str, float]) -> None:
    assert outside.read_scores(b"noise {\n\n" + json.dumps(scores).encode() + b"\n \n") == scores


@given(st.binary())
def test_whatever_is_printed_it_is_scores_or_said_to_be_none(printed: bytes) -> None:
    try:
        scores = outside.read_scores(printed)
    except ValueError:
        return
    assert scores and all(isinstance(value, float) for value in scores.values())
