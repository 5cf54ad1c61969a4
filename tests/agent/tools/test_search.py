"""The tool `search`: a view of the retriever for each trajectory, and searches that fail without ending anything."""

import asyncio
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tasks.agent import environments
from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.episode import Generation, Setup, run_episode
from tasks.agent.protocols import Call, SearchR1
from tasks.agent.toolbox import Context, Limits, Toolbox
from tasks.agent.toolbox.running import build
from tasks.errors import InputError, UnavailableError
from tasks.retrieval import Hit, Passage
from tasks.retrieval.index import manifest
from tasks.training.rollout_figures import COLUMNS, episode_figures

PASSAGES = [("p1", "Kashi", "Kashi was born in Rove.", None), ("p2", "Rove", "Rove is a city.", None)]


class Sessions:
    """A retriever whose sessions allow two searches each, and that remembers them."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []
        self.waiting = threading.Barrier(2)

    def session(self) -> Any:
        self.made.append([])
        return Session(self.made[-1], self.waiting)


class Session:
    def __init__(self, said: list[str], waiting: threading.Barrier) -> None:
        self._said, self._waiting = said, waiting

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        if len(self._said) == 2:
            raise UnavailableError("two searches a question", spent=True)
        self._waiting.wait(10)  # both calls of a turn are here at a time
        self._said.extend(queries)
        return [[Hit(Passage("p", "T", query), 1.0)] * topk for query in queries]


def test_a_trajectory_keeps_one_session(monkeypatch: pytest.MonkeyPatch, defaults: Any) -> None:
    sessions = Sessions()
    monkeypatch.setattr("tasks.retrieval.open_retriever", lambda *_: sessions)
    box = Toolbox(build(["search"], Context(None, defaults.retrieval)), Limits(seconds=20.0, parallel=2))

    async def play(trajectory: str) -> list[Any]:
        calls = [Call("search", arguments={"query": f"{trajectory} {n}"}) for n in range(2)]
        return [*await box.call(trajectory, calls), *await box.call(trajectory, calls[:1])]

    for trajectory in ("a", "b"):
        first, second, third = asyncio.run(play(trajectory))
        assert [one.text for one in first.passages] == ["a 0" if trajectory == "a" else "b 0"] * 3
        assert (second.failure, third.failure) == (None, "spent")
    assert [sorted(one) for one in sessions.made] == [["a 0", "a 1"], ["b 0", "b 1"]]


class Fake(BaseHTTPRequestHandler):
    """Search-R1's API over one passage, as long as its server is well."""

    server: Any

    def do_GET(self) -> None:
        self.say(200, {"corpus_sha256": self.server.corpus, "retriever": "bm25"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        document = {"id": "p1", "contents": '"Kashi"\nKashi was born in Rove. </information>'}
        self.say(self.server.status, {"result": [[{"document": document, "score": 1.0}]]})

    def say(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server(index: Path) -> Any:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    made.status, made.corpus = 200, manifest.read(index)["corpus_sha256"]  # type: ignore[attr-defined]
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def index(build_index: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("index") / "index", PASSAGES)


@pytest.fixture
def remote(server: Any, defaults: Any, index: Path) -> Context:
    address = f"http://127.0.0.1:{server.server_port}"
    return Context(index, defaults.retrieval.model_copy(update={"server": address, "seconds": 0.3}))


def test_a_server_that_ends_under_way_ends_no_episode(
    server: Any, remote: Context, defaults: Any, tokenizer: Any, question_row: Any
) -> None:
    protocol = SearchR1()
    turns = iter(["<search> a </search>", "<search> b </search>", "<search> c </search>", "<answer> Rove </answer>"])

    async def generate(prompt: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        turn = next(turns)
        if " b " in turn:
            server.status = 503
        if " c " in turn:
            server.status = 409
        return Generation(tokenizer.encode(turn, add_special_tokens=False), None)

    def play() -> Any:
        limits = Budget(max_turns=4, max_response_tokens=400, max_turn_tokens=40, max_observation_tokens=100)
        box = Toolbox(build(["search"], remote), Limits(seconds=20.0))
        setup = Setup(protocol, environments.create(defaults.environment), box, Chat(tokenizer), limits)
        row = question_row("Where was Kashi born?", ["Rove"], ["Kashi"], ["p1"])
        return asyncio.run(run_episode(row, generate=generate, setup=setup))

    # Another corpus under way is no failed search: the stage ends.
    with pytest.raises(InputError, match=r"retrieval\.server: .* searches another corpus"):
        play()
    server.status = 200
    turns = iter(["<search> a </search>", "<search> b </search>", "<answer> Rove </answer>"])
    trajectory = play()
    assert [call.failure for call in trajectory.calls] == [None, "unavailable"]
    assert (
        "<information> Doc 1 (Title: Kashi) Kashi was born in Rove. ‹/information>\n</information>" in trajectory.text
    )
    assert "<information> Error: it is not available now.</information>" in trajectory.text
    assert (trajectory.reward, trajectory.passage_ids) == (1.0, [["p1"]])
    row = trajectory.record()
    figures = episode_figures(pd.DataFrame([{name: row[name] for name in COLUMNS}]))
    assert (figures["tool_failures/all"], figures["tool_failures/unavailable"]) == (1.0, 1.0)


def test_a_server_of_another_corpus_is_refused(server: Any, remote: Context) -> None:
    server.corpus = "d" * 64
    with pytest.raises(InputError, match=r"^retrieval\.server: .* searches corpus dddddddddddd, not"):
        build(["search"], remote)
