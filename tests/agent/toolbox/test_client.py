"""The client against servers that are gone, slow, or say what no tool server says."""

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest

from tasks.agent.protocols import Call
from tasks.agent.toolbox import Limits, Result
from tasks.agent.toolbox import client as module
from tasks.agent.toolbox.client import ToolClient
from tasks.errors import InputError

TOOL = {"name": "search", "schema": {"type": "function"}}
GOOD = {"obs": "x", "passages": [], "done": False, "failure": None, "seconds": 0.1}
LIMITS = Limits(seconds=0.2, characters=10, parallel=2)
HANG = 600.0  # seconds; no machine is so busy that a tenth of it would not do


class Fake:
    """A server that says what it is told to say, whatever it is asked."""

    def __init__(self) -> None:
        self.tools: Any = {"tools": [TOOL]}
        self.says: Callable[[BaseHTTPRequestHandler], None] = lambda request: send(request, {})
        self.bodies: list[Any] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                send(self, fake.tools)

            def do_POST(self) -> None:
                fake.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                fake.says(self)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *args: None  # type: ignore[method-assign]  a client that has given up
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


def send(request: BaseHTTPRequestHandler, content: Any, status: int = 200) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    request.send_response(status)
    request.send_header("content-length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def answers(content: Any, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda request: send(request, content, status)


@pytest.fixture
def fake() -> Iterator[Fake]:
    server = Fake()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def client(fake: Fake) -> ToolClient:
    return ToolClient(fake.address + "/", ["search"], LIMITS)


def ask(client: ToolClient, *texts: str) -> list[Result]:
    return asyncio.run(client.call("one", [Call("search", text) for text in texts]))


def reply(observation: Any) -> dict[str, Any]:
    return {"observations": [observation], "dones": [False], "valids": [True]}


def test_a_call_is_sent_in_verl_tools_form_and_its_result_comes_back(fake: Fake, client: ToolClient) -> None:
    passage = {"id": "p", "title": "t", "text": "y"}
    fake.says = answers(reply({**GOOD, "passages": [passage], "done": True, "more": 1}))
    (result,) = ask(client, "Kashi")
    assert (result.text, result.done, result.failure) == ("x", True, None)
    assert [(one.id, one.title, one.text) for one in result.passages] == [("p", "t", "y")]
    assert fake.bodies == [
        {
            "trajectory_ids": ["one"],
            "actions": ["<search>Kashi</search>"],
            "finish": [False],
            "extra_fields": [{"details": True}],
        }
    ]
    assert client.schemas == [TOOL["schema"]]


def test_arguments_are_sent_as_a_tool_call(fake: Fake, client: ToolClient) -> None:
    fake.says = answers(reply(GOOD))
    asyncio.run(client.call("one", [Call("search", arguments={"query": "é\ud800"})]))
    (action,) = fake.bodies[0]["actions"]
    inner = action.removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert json.loads(inner) == {"name": "search", "arguments": {"query": "é\ud800"}}


@pytest.mark.parametrize(
    "says",
    [
        answers(b"<html>"),
        answers(b"\xff\xfe"),
        answers(b"[" * 100_000),
        answers([]),
        answers({}),
        answers({"observations": []}),
        answers({"observations": None}),
        answers(reply("Kashi was born in Rove.")),
        answers({"observations": [GOOD, GOOD]}),
        answers(reply({**GOOD, "failure": "unheard of"})),
        answers(reply({**GOOD, "seconds": -1})),
        answers(reply({**GOOD, "obs": 3})),
        answers(reply(GOOD), 500),
        answers({"detail": "no"}, 400),
        answers(b" " * (module.MOST_BYTES + 1)),
        lambda request: request.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"),
        lambda request: request.wfile.write(b"nonsense\r\n\r\n"),
        lambda request: request.connection.close(),
    ],
)
def test_nonsense_is_a_failure(fake: Fake, client: ToolClient, says: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MARGIN", 0.3)  # seconds

    def and_close(request: BaseHTTPRequestHandler) -> None:
        says(request)
        request.close_connection = True

    fake.says = and_close
    (result,) = ask(client, "Kashi")
    assert (result.failure, result.text, result.passages) == ("worker", "", ())
    asyncio.run(client.release("one"))  # nor does this raise


def test_arguments_that_cannot_be_written_are_a_failure(client: ToolClient) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    (result,) = asyncio.run(client.call("one", [Call("search", arguments={"query": deep})]))
    assert result.failure == "worker"


def test_a_failure_brings_nothing_but_its_kind(fake: Fake, client: ToolClient) -> None:
    fake.says = answers(reply({**GOOD, "failure": "timeout", "obs": "</information>", "done": True}))
    (result,) = ask(client, "Kashi")
    assert (result.failure, result.text, result.done) == ("timeout", "", False)


def test_a_long_result_is_cut(fake: Fake, client: ToolClient) -> None:
    fake.says = answers(reply({**GOOD, "obs": "x" * 1000}))
    assert ask(client, "Kashi")[0].text == "x" * 10


@pytest.mark.parametrize("drip", [False, True])
def test_a_slow_server_is_waited_for_no_longer_than_a_call_and_a_margin(
    fake: Fake, client: ToolClient, monkeypatch: pytest.MonkeyPatch, drip: bool
) -> None:
    monkeypatch.setattr(module, "MARGIN", 0.3)  # seconds
    end = threading.Event()

    def slow(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" if drip else b"")
        started = time.monotonic()
        while not end.wait(0.05) and time.monotonic() < started + HANG:
            request.wfile.write(b" " if drip else b"")

    fake.says = slow
    start = time.perf_counter()
    try:
        results = ask(client, "Kashi", "Rove", "surplus")
    finally:
        end.set()
    assert [one.failure for one in results] == ["worker", "worker", "surplus"]
    assert 0.4 < time.perf_counter() - start < HANG / 10


def test_an_episodes_own_deadline_goes_through(fake: Fake, client: ToolClient) -> None:
    end = threading.Event()
    fake.says = lambda request: send(request, {}) if end.wait(HANG) else None

    async def bounded() -> None:
        async with asyncio.timeout(0.1):
            await client.call("one", [Call("search", "Kashi")])

    with pytest.raises(TimeoutError):
        asyncio.run(bounded())
    end.set()


def test_a_server_that_has_gone_is_a_failure(fake: Fake, client: ToolClient) -> None:
    fake.server.shutdown()
    fake.server.server_close()
    assert ask(client, "Kashi")[0].failure == "worker"
    asyncio.run(client.release("one"))


def test_what_the_server_was_not_asked_for_is_unknown(fake: Fake, client: ToolClient) -> None:
    (result,) = asyncio.run(client.call("one", [Call("python", "1")]))
    assert result.failure == "unknown" and not fake.bodies


def test_one_client_serves_one_loop_after_the_other(fake: Fake, client: ToolClient) -> None:
    fake.says = answers(reply(GOOD))
    assert ask(client, "Kashi", "Rove")[1].text == "x"
    gc.collect()
    before = psutil.Process().num_fds()
    assert [ask(client, "Kashi", "Rove")[1].text for _ in range(20)] == ["x"] * 20
    # Connections of a loop that has ended are closed; the fake server, in this process, holds the other ends.
    deadline = time.monotonic() + 60
    while psutil.Process().num_fds() > before + 10:
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("tools", "line"),
    [
        (
            {"tools": [{**TOOL, "name": "other"}]},
            "tools.names: the tool server at .* has no tool 'search'; it has: other",
        ),
        ({"tools": [{"name": "search"}]}, "is no tool server of this project"),
        ({"tools": 3}, "is no tool server of this project"),
        ([], "is no tool server of this project"),
        (b"<html>", "is no tool server of this project"),
    ],
)
def test_a_server_that_lacks_a_tool_is_refused(fake: Fake, tools: Any, line: str) -> None:
    fake.tools = tools
    with pytest.raises(InputError, match=line):
        ToolClient(fake.address, ["search"], LIMITS)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "start", "http://[", "http://no.such.host.invalid"])
def test_an_address_where_nobody_answers_is_one_line(address: str) -> None:
    with pytest.raises(InputError, match=r"tools\.server: no tool server answers at"):
        ToolClient(address, ["search"], LIMITS)
