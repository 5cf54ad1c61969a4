"""The benchmark's own parts: what it sends, how it checks what comes back, and how it judges its figures."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import retrieval_data, retrieval_report
from benchmarks.retrieval_load import Load, check

QUESTIONS = [f"question {number}?" for number in range(10)]
ANSWERS = [[f"{number}-{place}" for place in range(20)] for number in range(10)]


def reply(queries: list[str], topk: int) -> list[list[dict]]:
    found = [ANSWERS[QUESTIONS.index(query.strip())][:topk] for query in queries]
    return [[{"document": {"id": one}, "score": 1.0} for one in ids] for ids in found]


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Starts a server whose answers a function may spoil; its address."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    tasks = []

    def start(
        spoil: Callable[[list], list] = lambda result: result, status: int = 200, seen: list | None = None
    ) -> str:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.append(asyncio.current_task())
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                if seen is not None:
                    seen.extend(asked["queries"])
                body = json.dumps({"result": spoil(reply(asked["queries"], asked["topk"]))}).encode()
                content = b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
                for at in range(0, len(content), 100):  # in pieces, as a network may
                    writer.write(content[at : at + 100])
                    await asyncio.sleep(0)
                await asyncio.sleep(0.002)

        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(talk, "127.0.0.1", 0), loop).result()
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start

    async def end() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(end(), loop).result()
    loop.call_soon_threadsafe(loop.stop)


@pytest.fixture
def job(tmp_path) -> dict:
    (tmp_path / "questions").write_text(json.dumps(QUESTIONS))
    (tmp_path / "answers").write_text(json.dumps(ANSWERS))
    return {"clients": 3, "size": 4, "topk": 3, "warm": False, "exact": True, "seconds": 0.1, "warm_up": 0.02,
            "grace": 5.0, "first": None, "questions": str(tmp_path / "questions"),
            "answers": str(tmp_path / "answers")}  # fmt: skip


def measure(job: dict, address: str) -> dict:
    load = Load()
    load.handle({"prepare": {**job, "address": address}})
    return load.handle({"go": {}})


def test_load_sends_every_query_once_and_counts_what_is_answered(job, serve) -> None:
    seen: list[str] = []
    address = serve(seen=seen)
    load = Load()
    found = []
    for _ in range(2):
        load.handle({"prepare": {**job, "address": address}})
        found.append(load.handle({"go": {}}))
    assert len(seen) == len(set(seen)) > 100
    assert sum(one["queries"] for one in found) < len(seen)  # the warm-up is not counted
    assert all(one["same"] == one["queries"] > 0 for one in found)
    assert all(0 < one["p50"] <= one["p99"] < 1 and one["wall"] >= 0.1 for one in found)


def test_warm_load_asks_the_same_again(job, serve) -> None:
    seen: list[str] = []
    measure({**job, "warm": True}, serve(seen=seen))
    assert len(set(seen)) == job["clients"] * job["size"] < len(seen)


def test_crossed_answers_are_found(job, serve) -> None:
    with pytest.raises(RuntimeError, match="in place of"):
        measure(job, serve(lambda result: result[1:] + result[:1]))
    with pytest.raises(RuntimeError, match="in place of"):
        measure({**job, "exact": False}, serve(lambda result: result[1:] + result[:1]))


def test_a_refusal_ends_the_measurement(job, serve) -> None:
    with pytest.raises(RuntimeError, match="status 503"):
        measure(job, serve(status=503))


@pytest.mark.parametrize("body", [{"result": []}, {"result": [[]]}])
def test_lost_answers_are_found(body) -> None:
    with pytest.raises(RuntimeError):
        check([(0, json.dumps(body).encode())], 1, ANSWERS, 3, exact=True)


def test_near_ties_may_change_places_where_sums_depend_on_the_batch() -> None:
    hits = [{"document": {"id": one}} for one in ("0-1", "0-0", "0-3")]
    bodies = [(0, json.dumps({"result": [hits]}).encode())]
    assert check(bodies, 1, ANSWERS, 3, exact=False) == 0
    with pytest.raises(RuntimeError):
        check(bodies, 1, ANSWERS, 3, exact=True)


@given(st.sets(st.integers(0, 10_000), min_size=2))
def test_marks_tell_questions_apart_and_change_no_word(numbers) -> None:
    made = {retrieval_data.marked("Who?", number) for number in numbers}
    assert len(made) == len(numbers)
    assert {one.rstrip() for one in made} == {"Who?"}


def test_generated_text_is_the_same_again() -> None:
    passages, questions = retrieval_data.generate(50, 20, 0)
    assert (passages, questions) == retrieval_data.generate(50, 20, 0)
    assert len(passages) == 50 and len({one["id"] for one in passages}) == 50
    assert len(set(questions)) == len(questions) > 15


def test_vocabulary_repeats_no_word() -> None:
    words = retrieval_data.vocabulary(20_000)
    assert len(set(words)) > 0.98 * len(words)


def test_figures_count_cores() -> None:
    found = {"queries": 1000, "wall": 2.0, "cpu": 0.5, "p50": 0.001, "p99": 0.004, "client_cpu": 0.1}
    assert retrieval_report.figures(found, 2) == {
        "queries_per_second": 500, "capacity": 4000, "cpu_ms": 0.5, "p50_ms": 1, "p99_ms": 4, "client_cpu_ms": 0.1,
    }  # fmt: skip


def made(**more: float) -> dict[str, list[float]]:
    plain = {"queries_per_second": 100.0, "capacity": 100.0, "cpu_ms": 1.0, "p50_ms": 1.0, "p99_ms": 2.0}
    return {key: [value] for key, value in {**plain, **more}.items()}


def goals(**changed: dict) -> dict[str, dict]:
    result = {"figures": {}, "memory": {}, "build": [], **changed}
    return {one["goal"]: one for one in retrieval_report.goals(result)}


def test_what_was_not_measured_is_no_goal() -> None:
    assert goals() == {}


def test_goals_take_the_worst_and_the_best_back_end() -> None:
    found = goals(
        figures={
            "bm25.ours.1": made(queries_per_second=50.0, cpu_ms=0.5),
            "bm25.ours.32": made(queries_per_second=90.0),
            "bm25.bm25s.numpy0.256": made(queries_per_second=10.0),
            "bm25.bm25s.numba1.32": made(queries_per_second=100.0),
            "bm25.http.1x32": made(capacity=10.0),  # one client keeps no machine busy
            "bm25.http.16x32": made(capacity=85.0),
            "bm25.http.64x32": made(capacity=81.0, p99_ms=4.0),
            "bm25.http.1x1": made(cpu_ms=1.6),
            "bm25.http.64x1": made(cpu_ms=0.9, p99_ms=6.0),
        },
        build=[{"seconds": 16.0}, {"seconds": 10.0}, {"seconds": 12.0}],
        memory={"bm25 in process": {"after": {"rss": 513.0}}},
    )
    told = {name: (round(one["value"], 3), one["met"]) for name, one in found.items()}
    assert told == {
        "bm25 in process / bm25s' best back end, on the clock": (0.9, False),
        "bm25 in process / bm25s' best back end, by processor time": (1.0, True),
        "bm25 by HTTP, 32 queries a request / in process, clients' processor time apart": (0.81, True),
        "bm25 by HTTP, one query a request: processor time added, ms": (1.1, False),
        "bm25 by HTTP, 64 clients: p99 / p50": (6.0, False),
        "bm25 resident, a process that has searched, MiB": (513.0, False),
        "index build with bm25, s": (12.0, True),
    }


def test_dense_service_is_measured_against_the_encoders_best_batch() -> None:
    found = goals(
        figures={
            "dense.encoder.32": made(capacity=90.0, queries_per_second=80.0),
            "dense.encoder.64": made(capacity=100.0, queries_per_second=70.0),
            "dense.http.16x32": made(capacity=95.0, queries_per_second=72.0),
            "dense.http.64x32": made(capacity=91.0, queries_per_second=76.0),
        }
    )
    goal = "dense by HTTP, 32 queries a request / the encoder alone at its best batch"
    assert found[f"{goal}, on the clock"]["value"] == 0.9
    assert found[f"{goal}, by processor time"]["value"] == 0.91


def test_tables_say_what_is_missed() -> None:
    figures = {"bm25.http.64x1": made(p99_ms=6.0, client_cpu_ms=0.2)}
    result = {
        "figures": figures,
        "labels": {"bm25.http.64x1": "by HTTP"},
        "memory": {},
        "build": [],
        "notes": ["Note."],
    }
    text = retrieval_report.tables({**result, "goals": retrieval_report.goals(result)})
    assert "| by HTTP | 100 (100 to 100) | 1 (1 to 1) |  | 0.2 (0.2 to 0.2) | 1 (1 to 1) | 6 (6 to 6) |" in text
    assert "| bm25 by HTTP, 64 clients: p99 / p50 | 6 | <= 5 | **not met** |" in text
