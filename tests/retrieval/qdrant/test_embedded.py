import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tasks.errors import InputError
from tasks.params import Retrieval
from tasks.retrieval import Hit, Retriever, open_retriever
from tasks.retrieval.index import manifest
from tasks.retrieval.qdrant import open_qdrant


def shown(found: Sequence[Sequence[Hit]]) -> list[list[tuple[str, float]]]:
    return [[(hit.passage.id, pytest.approx(hit.score, abs=1e-6)) for hit in hits] for hits in found]


@pytest.fixture(scope="session")
def filled(dense_index, retrieval: Callable[..., Retrieval], tmp_path_factory: pytest.TempPathFactory):
    """An index with a collection, which every test takes a copy of."""
    made = replace(dense_index, folder=tmp_path_factory.mktemp("filled") / "index")
    shutil.copytree(dense_index.folder, made.folder)
    made.fill(retrieval("qdrant"))
    return made


@pytest.fixture
def opened(built, filled, retrieval: Callable[..., Retrieval]) -> Callable[[], Retriever]:
    shutil.copytree(filled.folder / "qdrant", built.folder / "qdrant")
    return lambda: open_qdrant(built.folder, retrieval("qdrant"), built.manifest)


def test_it_ranks_as_flat_search_over_the_same_vectors(built, opened, retrieval, passages) -> None:
    dense, qdrant = open_retriever(built.folder, retrieval("dense")), opened()
    queries = [f"{title} {text[:40]}" for _, title, text, _ in passages[:40]]
    expected = dense.search(queries, 10)
    found = qdrant.search(queries, 10)
    assert [[(h.passage, h.score) for h in hits] for hits in found] == [
        [(h.passage, pytest.approx(h.score, abs=1e-6)) for h in hits] for hits in expected
    ]
    assert [len(hits) for hits in found] == [10] * 40


def test_passages_come_back_whole(built, opened) -> None:
    hit = opened().search(["Zürich"], 1)[0][0]
    assert (hit.passage.id, hit.passage.title, hit.passage.text) == ("p99", "Zürich", "A city.")
    assert hit.passage.url == "https://example.org/zurich"


@pytest.mark.parametrize("query", ["", "  "])
def test_a_query_that_says_nothing_finds_nothing(opened, query: str) -> None:
    assert opened().search([query], 3) == [[]]


def test_no_query_no_answer(opened) -> None:
    assert opened().search([], 3) == []


def test_more_passages_than_there_are_can_be_asked_for(opened, built) -> None:
    hits = opened().search(["Zürich city"], 10**9)[0]
    assert 1 < len(hits) <= 100
    assert all(hit.score > 0 for hit in hits)


def test_equal_vectors_keep_the_corpus_order(built, retrieval) -> None:
    vectors = built.vectors.copy()
    vectors[:5] = vectors[99]
    built.fill(retrieval("qdrant"), vectors=vectors)
    hits = open_qdrant(built.folder, retrieval("qdrant"), built.manifest).search(["Zürich\nA city."], 6)[0]
    assert [hit.passage.id for hit in hits] == ["p0", "p1", "p2", "p3", "p4", "p99"]


def test_threads_search_side_by_side(opened, passages) -> None:
    qdrant, queries = opened(), [f"{title}" for _, title, _, _ in passages[:40]]
    expected = [shown(qdrant.search([query], 5)) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert [shown(hits) for hits in pool.map(lambda query: qdrant.search([query], 5), queries)] == expected


def test_one_process_may_open_it_more_than_once(opened) -> None:
    one, other = opened(), opened()
    del one
    gc.collect()
    assert other.search(["Zürich"], 1)[0][0].passage.id == "p99"


def test_another_process_is_told_how_to_share_it(built, opened) -> None:
    code = (
        "import sys, types; from pathlib import Path; from tasks.retrieval.qdrant.clients import Embedded\n"
        "from tasks.errors import InputError\n"
        "try: Embedded(Path(sys.argv[1]) / 'qdrant')\n"
        "except InputError as error: print(error)"
    )
    qdrant = opened()
    command = [sys.executable, "-c", code, str(built.folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "another process has opened this collection" in said
    assert "retrieval.server: start with workers: 1" in said
    assert said.count("\n") == 1
    assert qdrant.search(["Zürich"], 1)[0][0].passage.id == "p99"


def test_a_process_that_has_it_open_ends_without_a_word(built, opened) -> None:
    code = (
        "import sys; from pathlib import Path; from tasks.retrieval.qdrant.clients import Embedded\n"
        "kept = Embedded(Path(sys.argv[1]) / 'qdrant'); print(kept.collection('forager')[1]['points'])"
    )
    command = [sys.executable, "-c", code, str(built.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("100\n", "")


def test_a_collection_of_another_corpus_is_refused(built, retrieval) -> None:
    built.fill(retrieval("qdrant"), corpus_sha256="0" * 64)
    with pytest.raises(InputError, match="corpus_sha256 is 0000"):
        open_qdrant(built.folder, retrieval("qdrant"), built.manifest)


def test_a_collection_of_another_encoder_is_refused(built, retrieval) -> None:
    other = {**built.manifest["parts"]["encoder"], "ngrams": [2, 4]}
    built.fill(retrieval("qdrant"), encoder=other)
    with pytest.raises(InputError, match="encoder"):
        open_qdrant(built.folder, retrieval("qdrant"), built.manifest)


def test_a_collection_that_is_not_whole_is_refused(built, retrieval) -> None:
    built.fill(retrieval("qdrant"), vectors=built.vectors[:40], table=built.table.slice(0, 40))
    meta = built.folder / "qdrant" / "meta.json"
    content = json.loads(meta.read_text())
    content["collections"]["forager"]["metadata"]["passages"] = 100
    meta.write_text(json.dumps(content))
    with pytest.raises(InputError, match="holds 40 of 100 passages"):
        open_qdrant(built.folder, retrieval("qdrant"), built.manifest)


def test_a_collection_of_another_name_is_none(built, opened, retrieval) -> None:
    section = retrieval("qdrant", qdrant={"collection": "other"})
    with pytest.raises(InputError, match="no collection 'other'"):
        open_qdrant(built.folder, section, built.manifest)


def test_an_index_without_a_collection_is_refused_and_stays_as_it_is(built, retrieval) -> None:
    with pytest.raises(InputError, match="no collection"):
        open_qdrant(built.folder, retrieval("qdrant"), built.manifest)
    assert not (built.folder / "qdrant").exists()


def test_what_a_killed_build_left_is_begun_anew(built, retrieval) -> None:
    aside = built.folder / ".qdrant.partial"
    aside.mkdir()
    (aside / "meta.json").write_text("{")
    built.fill(retrieval("qdrant"))
    assert open_qdrant(built.folder, retrieval("qdrant"), built.manifest).search(["Zürich"], 1)[0]
    assert not aside.exists()


def test_a_collection_may_be_moved_as_a_folder(built, opened, retrieval, tmp_path) -> None:
    shutil.copytree(built.folder, tmp_path / "elsewhere")
    shutil.rmtree(built.folder)
    qdrant = open_qdrant(tmp_path / "elsewhere", retrieval("qdrant"), manifest.read(tmp_path / "elsewhere"))
    assert qdrant.search(["Zürich"], 1)[0][0].passage.id == "p99"


def test_a_client_that_is_not_installed_is_named(built, retrieval, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="extra `qdrant`"):
        open_qdrant(built.folder, retrieval("qdrant"), built.manifest)
    with pytest.raises(InputError, match="extra `qdrant`"):
        built.fill(retrieval("qdrant"))
