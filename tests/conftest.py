import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, settings

from tasks import params
from tasks.contract import SECTIONS, Stage
from tasks.processes import end_with_parent

ROOT = Path(__file__).parents[1]

# How fast the machine is must never decide a test.
settings.register_profile("forager", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("forager")


class Track:
    """Takes a stage's artifacts by name; the stage's own logic is what is tested."""

    run_id = "run"

    def __init__(self) -> None:
        self.artifacts: list[str] = []
        self.data: dict[str, str] = {}

    def log_artifact(self, path: Path) -> None:
        assert path.exists()
        self.artifacts.append(path.name)

    def log_data(self, path: Path, name: str, context: str, digest: str) -> None:
        self.data[name] = digest


@pytest.fixture
def make_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    """A stage in an empty workspace; the defaults are overlaid by what a test names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": {name: {"deps": []} for name in SECTIONS}}))

    def make(name: str, **top: Any) -> Stage:
        defaults = yaml.safe_load((ROOT / "params" / "defaults.yaml").read_text(encoding="utf-8"))
        resolved = params.parse({"profile": "test", **params.overlay(defaults, top)}, where="test")
        out = Path("data", name)
        out.mkdir(parents=True, exist_ok=True)
        return Stage(name, resolved, out, Track())

    return make


@pytest.fixture(scope="session")
def question_row() -> Callable[..., dict[str, Any]]:
    """A row of the data contract."""

    def make(question: str, answers: list[str], titles: list[str], gold: list[str], **more: Any) -> dict[str, Any]:
        return {
            "data_source": more.get("data_source", "made"),
            "environment": "search",
            "agent_name": "forager",
            "prompt": [{"role": "user", "content": f"Question: {question}"}],
            "ability": "fact-reasoning",
            "reward_model": {"style": "rule", "ground_truth": {"target": answers, "scorer": "squad"}},
            "extra_info": {
                "index": 0,
                "split": "train",
                "id": more.get("id", question),
                "question": question,
                "golden_answers": answers,
                "hops": len(titles),
                "type": more.get("type"),
                "supporting_titles": titles,
                "gold_passage_ids": gold,
                "tools_kwargs": None,
            },
        }

    return make


@pytest.fixture(scope="session")
def five_rows(tmp_path_factory: pytest.TempPathFactory, question_row) -> Path:
    """A parquet file of five rows, of the questions q0 to q4; not to be written to."""
    made = [question_row(f"Q{n}?", ["a"], ["t"], ["p"], id=f"q{n}") for n in range(5)]
    for row in made:
        del row["extra_info"]["tools_kwargs"]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(made), path)
    return path


@pytest.fixture(scope="session")
def write_corpus() -> Callable[[Path, list[tuple]], Path]:
    """Writes passages (id, title, text, url) as ingest does."""

    def write(path: Path, rows: list[tuple]) -> Path:
        columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
        table = {n: pa.array(c, pa.string()) for n, c in zip(("id", "title", "text", "url"), columns, strict=True)}
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path)
        return path

    return write


@pytest.fixture(scope="session")
def build_index(write_corpus: Callable[[Path, list[tuple]], Path]) -> Callable[[Path, list[tuple]], Path]:
    """Builds a BM25 index of passages (id, title, text, url) into a folder; returns the folder."""
    from tasks.retrieval.index.build import build

    content = yaml.safe_load((ROOT / "params" / "defaults.yaml").read_text(encoding="utf-8"))["index"]
    section = params.Index.model_validate({**content, "build": ["bm25"]})

    def make(folder: Path, rows: list[tuple]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        build(write_corpus(folder.with_name(f"{folder.name}-corpus.parquet"), rows), folder, section, lambda line: None)
        return folder

    return make


@pytest.fixture(scope="session")
def gone() -> Callable[[list[psutil.Process]], bool]:
    """Whether processes end within some seconds."""

    def wait(processes: list[psutil.Process], seconds: float = 120) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes):
                return True
            time.sleep(0.05)
        return False

    return wait


class ServerProcess:
    """A server's command as a child process."""

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Whoever kills the tests ends their servers.
            preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
        )
        self.address = ""

    def ready(self) -> "ServerProcess":
        """Wait for the line with the address."""
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.end()
        return self

    def family(self) -> list[psutil.Process]:
        """What it has started, and what those have."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code, and what it said on stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            _, said = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, said


@pytest.fixture(scope="session")
def start_server() -> Callable[..., contextlib.AbstractContextManager[ServerProcess]]:
    """Starts a server's command for a with-block."""

    @contextlib.contextmanager
    def started(module: str, *arguments: str, **environment: str) -> Iterator[ServerProcess]:
        server = ServerProcess(module, *arguments, **environment)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.end()

    return started


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace as the current folder: parameters, no data, an MLflow of its own."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    ours = [f"FORAGER_{name}" for name in ("EXPERIMENT", "FLOW_TAGS", "PARENT_RUN", "WORKSPACE")]
    for name in ("MLFLOW_TRACKING_URI", "PREFECT_API_URL", "PREFECT_HOME", *ours):
        # Set and then removed, so that what a test's code sets in this process is undone as well.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def mlflow_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An mlruns/ with MLflow's empty tables, which take seconds to make, to be copied into a workspace."""
    folder = tmp_path_factory.mktemp("mlflow") / "mlruns"
    folder.mkdir()
    code = "import sys, mlflow; mlflow.MlflowClient(sys.argv[1]).search_experiments()"
    subprocess.run([sys.executable, "-c", code, f"sqlite:///{folder / 'mlflow.db'}"], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def world_texts() -> list[str]:
    """What a tokenizer is trained on: a small world's passages and questions, and practice text."""
    from tasks.agent.protocols import SearchR1
    from tasks.qa import practice, world
    from tasks.training.tokenizer import message

    made = world.generate(
        0,
        {"train": 120, "validation": 20, "test": 20},
        {"train": 120, "validation": 20, "test": 20},
        {"one-hop": 0.5, "two-hop": 0.35, "comparison": 0.15},
    )
    asked = [question.question for questions in made.questions.values() for question in questions]
    practised = practice.Practice(Random(0), practice.spare_names(()), SearchR1(), message)
    texts = [text for kind in practice.TEXTS for text in islice(practised.documents(kind), 500)]
    return [text for p in made.passages for text in (p.title, p.text)] + asked + texts


@pytest.fixture(scope="session")
def tokenizer(world_texts: list[str]) -> Any:
    """A small tokenizer of the kind that a policy made from scratch gets."""
    from tasks.agent.protocols import SearchR1
    from tasks.training.tokenizer import train_tokenizer

    return train_tokenizer(world_texts, 512, SearchR1().tokens)


@pytest.fixture(scope="session")
def make_model(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a model of random weights, a few thousand parameters small, in Hugging Face's form."""
    from tasks.params import Architecture
    from tasks.training import policies

    architecture = Architecture(hidden_size=64, layers=2, heads=2, kv_heads=1, vocabulary=512, initializer_range=0.02)

    def make(seed: int = 0, dtype: str = "float32") -> Path:
        folder = tmp_path_factory.mktemp("model") / "model"
        policy = policies.from_scratch(architecture, tokenizer, 256, seed)
        for name, parameter in policy[0].named_parameters():
            # With small weights a model only repeats its last token, since its embeddings are tied.
            if parameter.ndim > 1 and "embed" not in name:
                parameter.data.mul_(10)
        policies.save(policy, folder, dtype, [])
        return folder

    return make


@pytest.fixture(scope="session")
def defaults() -> params.Params:
    """The default parameters."""
    content = yaml.safe_load((ROOT / "params" / "defaults.yaml").read_text(encoding="utf-8"))
    return params.parse({"profile": "test", **content}, where="test")


class RecordedRun:
    """A short healthy run of profile tiny as tests/diagnosis/record.py has cut it; a test spoils its parts."""

    def __init__(self) -> None:
        folder = ROOT / "tests" / "diagnosis" / "recorded"
        self.params = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
        lines = (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()
        self.steps = [json.loads(line) for line in lines]
        names = ("sanity", "index", "selected")
        self.sanity, self.index, self.selected = (json.loads((folder / f"{name}.json").read_text()) for name in names)
        self.rollouts, self.rows, self.demos, self.corpus = (
            pq.read_table(folder / f"{name}.parquet").to_pylist() for name in ("rollouts", "rows", "demos", "corpus")
        )

    def episodes(self, split: str = "train") -> list[dict[str, Any]]:
        """The rollouts of a split, to be changed in place."""
        return [one for one in self.rollouts if one["split"] == split]

    def write(self, workspace: Path, run: str = "data/rl", finished: bool = True) -> Path:
        """Lay the run out as the stages do; returns the workspace."""
        data, rl = workspace / "data", workspace / run
        for name in ("params", "index", "demos", "ingest"):
            (data / name).mkdir(parents=True, exist_ok=True)
        (rl / "rollouts").mkdir(parents=True)
        (data / "params" / "params.yaml").write_text(yaml.safe_dump(self.params), encoding="utf-8")
        (data / "index" / "figures.json").write_text(json.dumps(self.index), encoding="utf-8")
        (rl / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in self.steps), encoding="utf-8")
        if finished:
            (rl / "sanity.json").write_text(json.dumps(self.sanity), encoding="utf-8")
            (rl / "selected.json").write_text(json.dumps(self.selected), encoding="utf-8")
        for path, rows in (
            (data / "demos" / "rl_train.parquet", self.rows),
            (data / "demos" / "train.parquet", self.demos),
            (data / "ingest" / "corpus.parquet", self.corpus),
        ):
            pq.write_table(pa.Table.from_pylist(rows), path)
        for split, step in sorted({(one["split"], one["step"]) for one in self.rollouts}):
            part = [one for one in self.rollouts if (one["split"], one["step"]) == (split, step)]
            pq.write_table(pa.Table.from_pylist(part), rl / "rollouts" / f"{split}_{step:05d}.parquet")
        return workspace


@pytest.fixture
def recorded_run() -> RecordedRun:
    """A short healthy run, read anew for every test."""
    return RecordedRun()
