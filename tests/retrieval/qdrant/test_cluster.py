import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import pytest

from tasks.errors import InputError, UnavailableError
from tasks.params import Retrieval
from tasks.retrieval.qdrant import Qdrant, building, open_qdrant
from tasks.retrieval.qdrant.clients import KEY, connection

QUERY = "points/query/batch"


@pytest.fixture
def section(cluster, retrieval: Callable[..., Retrieval]) -> Callable[..., Retrieval]:
    def make(seconds: float = 5.0, url: str | None = None) -> Retrieval:
        return retrieval("qdrant", seconds=seconds, qdrant={"url": url or cluster.url})

    return make


@pytest.fixture
def opened(built, section) -> Callable[..., Qdrant]:
    built.fill(section())
    return lambda **keys: open_qdrant(built.folder, section(**keys), built.manifest)


def test_a_cluster_answers_as_the_embedded_mode_does(built, opened, retrieval, passages) -> None:
    built.fill(retrieval("qdrant"))
    queries = [title for _, title, _, _ in passages[:20]]
    expected = open_qdrant(built.folder, retrieval("qdrant"), built.manifest).search(queries, 5)
    found = opened().search(queries, 5)
    assert [[(h.passage, h.score) for h in hits] for hits in found] == [
        [(h.passage, pytest.approx(h.score, abs=1e-6)) for h in hits] for hits in expected
    ]


def test_queries_of_a_search_are_one_request(opened, cluster) -> None:
    qdrant = opened()
    before = len(cluster.requests)
    qdrant.search(["Zürich", "city", "abc"], 2)
    assert len(cluster.requests) == before + 1
    assert cluster.requests[-1].endswith(QUERY)


def test_pieces_and_batches_make_one_collection(
    built, section, cluster, passages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_PIECE", 30)
    monkeypatch.setattr(building, "_BATCH", 7)
    monkeypatch.setattr(building, "_SAY_SECONDS", 0.0)
    said = built.fill(section())
    assert [line.split(",")[0] for line in said] == [f"qdrant: {n} of 100 passages" for n in (30, 60, 90, 100)]
    assert sum(request.endswith("/points") for request in cluster.requests) == 3 * 5 + 2
    (name,) = [one.collection_name for one in cluster.model.get_aliases().aliases]
    points, _ = cluster.model.scroll(name, limit=200, with_payload=True)
    assert {point.id: point.payload for point in points} == {
        row: {"row": row, "id": id, "title": title, "text": text, "url": url}
        for row, (id, title, text, url) in enumerate(passages)
    }


def test_threads_search_side_by_side(opened) -> None:
    qdrant = opened()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: qdrant.search(["Zürich"], 1)[0][0].passage.id, range(40)))
    assert found == ["p99"] * 40


def test_the_alias_is_switched_when_the_collection_is_whole(built, section, cluster) -> None:
    built.fill(section())
    filled = [n for n, request in enumerate(cluster.requests) if request.endswith("/points")]
    switched = cluster.requests.index("POST /collections/aliases")
    assert filled
    assert max(filled) < switched


def test_what_is_searched_stays_the_same_when_the_alias_is_switched(built, opened, section, cluster) -> None:
    qdrant = opened()
    (first,) = [one.collection_name for one in cluster.model.get_aliases().aliases]
    said = built.fill(section(), corpus_sha256="0" * 64, vectors=-built.vectors)
    (second,) = [one.collection_name for one in cluster.model.get_aliases().aliases]
    assert first != second
    assert any(first in line and "stays" in line for line in said)
    assert qdrant.search(["Zürich"], 1)[0][0].passage.id == "p99"
    with pytest.raises(InputError, match="corpus_sha256 is 0000"):
        open_qdrant(built.folder, section(), built.manifest)


def test_the_same_collection_is_not_sent_twice(built, section, cluster) -> None:
    built.fill(section())
    before = len([r for r in cluster.requests if r.startswith("PUT")])
    assert any("already" in line for line in built.fill(section()))
    assert len([r for r in cluster.requests if r.startswith("PUT")]) == before


def test_a_build_that_fails_leaves_the_alias_and_the_next_begins_anew(
    built, section, cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_PIECE", 30)
    cluster.failing["/points"] = [200, 500, 500, 500, 500]
    with pytest.raises(InputError, match="500"), pytest.warns(UserWarning, match="Retrying"):
        built.fill(section())
    assert cluster.model.get_aliases().aliases == []
    (half,) = cluster.model.get_collections().collections
    assert cluster.model.count(half.name).count == 30
    built.fill(section())
    assert open_qdrant(built.folder, section(), built.manifest).search(["Zürich"], 1)[0]


def test_a_request_of_a_build_is_tried_again(built, section, cluster) -> None:
    cluster.failing["/points"] = [500, 500]
    with pytest.warns(UserWarning, match="Retrying"):
        built.fill(section())
    assert open_qdrant(built.folder, section(), built.manifest).search(["Zürich"], 1)[0]


def test_a_server_without_metadata_is_refused_before_anything_is_sent(built, section, cluster) -> None:
    create = cluster.model.create_collection
    cluster.model.create_collection = lambda name, vectors_config, metadata: create(name, vectors_config)
    with pytest.raises(InputError, match="keeps no metadata"):
        built.fill(section())
    assert not any(request.endswith("/points") for request in cluster.requests)


def test_a_collection_that_has_the_aliass_name_is_left_alone(built, section, cluster) -> None:
    built.fill(section())
    (name,) = [one.collection_name for one in cluster.model.get_aliases().aliases]
    with pytest.raises(InputError, match=r"retrieval\.qdrant\.collection"):
        built.fill(section().model_copy(update={"qdrant": section().qdrant.model_copy(update={"collection": name})}))


def test_a_collection_that_lost_points_is_refused_and_sent_anew(built, opened, section, cluster) -> None:
    (name,) = [one.collection_name for one in cluster.model.get_aliases().aliases]
    cluster.model.delete(name, [3, 4])
    with pytest.raises(InputError, match="holds 98 of 100 passages"):
        open_qdrant(built.folder, section(), built.manifest)
    built.fill(section())
    assert open_qdrant(built.folder, section(), built.manifest).search(["Zürich"], 1)[0]
    assert cluster.model.count(name).count == 98
    assert any("already" in line for line in built.fill(section()))


def test_an_alias_that_names_nothing_is_refused(built, section) -> None:
    with pytest.raises(InputError, match=r"no collection 'forager'; send it anew: `dvc repro --force"):
        open_qdrant(built.folder, section(), built.manifest)


def hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(60):
        handler.wfile.write(f"x-{number}: y\r\n".encode())
        time.sleep(0.05)


@pytest.mark.parametrize("fault", [hang, drip])
def test_a_slow_cluster_holds_a_search_no_longer_than_its_deadline(opened, cluster, fault) -> None:
    qdrant = opened(seconds=0.5)
    cluster.failing[QUERY] = [fault]
    start = time.monotonic()
    with pytest.raises(UnavailableError, match="qdrant"):
        qdrant.search(["Zürich"], 1)
    assert time.monotonic() - start < 2
    assert qdrant.search(["Zürich"], 1)[0][0].passage.id == "p99"


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_an_error_makes_a_search_unavailable(opened, cluster, status: int) -> None:
    qdrant = opened()
    cluster.failing[QUERY] = [status]
    with pytest.raises(UnavailableError, match=str(status)) as caught:
        qdrant.search(["Zürich"], 1)
    assert not caught.value.spent


def says(body: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b'{"result": null, "status": "ok", "time": 0}',
        b'{"result": [], "status": "ok", "time": 0}',
        b'{"result": [{"points": [{"id": 1, "version": 0, "score": 0.5}]}], "status": "ok", "time": 0}',
    ],
)
def test_what_is_no_answer_makes_a_search_unavailable(opened, cluster, body: bytes) -> None:
    qdrant = opened()
    cluster.failing[QUERY] = [says(body)]
    with pytest.raises(UnavailableError):
        qdrant.search(["Zürich"], 1)


def test_a_cluster_that_is_gone_ends_a_search_and_an_opening(built, opened, cluster, section) -> None:
    qdrant = opened()
    cluster.close()
    with pytest.raises(UnavailableError, match="Connect"):
        qdrant.search(["Zürich"], 1)
    with pytest.raises(InputError, match=r"retrieval\.qdrant\.url.*does not answer"):
        open_qdrant(built.folder, section(), built.manifest)
    with pytest.raises(InputError, match=r"retrieval\.qdrant\.url.*does not answer"):
        built.fill(section())


def test_the_key_of_the_environment_is_sent(built, section, cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret")
    with pytest.warns(UserWarning, match="insecure"):
        built.fill(section())
    assert all(headers["api-key"] == "secret" for headers in cluster.headers)


def test_the_key_is_never_sent_for_anyone_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret")
    for url in ("http://qdrant.example.org:6333", "http://10.0.0.1:6333", "http://localhost.example.org"):
        with pytest.raises(InputError, match=KEY) as caught:
            connection(url, 5)
        assert "secret" not in str(caught.value)
    assert connection("https://qdrant.example.org:6333", 5)["api_key"] == "secret"
    for url in ("http://localhost:6333", "http://127.0.0.1:6333", "http://[::1]:6333"):
        assert connection(url, 5)["api_key"] == "secret"
    monkeypatch.delenv(KEY)
    assert connection("http://10.0.0.1:6333", 5)["api_key"] is None


@pytest.mark.parametrize("url", ["", "localhost:6333", "ftp://host", "http://", "http://host:99999", "http://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"retrieval\.qdrant\.url"):
        connection(url, 5)
