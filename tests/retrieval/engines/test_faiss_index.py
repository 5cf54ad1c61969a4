from pathlib import Path

import numpy as np
import pytest

from tasks.params import Index
from tasks.retrieval.engines import faiss_index


def unit(rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    # In clusters, as texts are.
    centres = np.random.default_rng(0).standard_normal((40, 24))
    vectors = (centres[random.integers(0, 40, rows)] + 0.4 * random.standard_normal((rows, 24))).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def built(folder: Path, section: Index, vectors: np.ndarray):
    folder.mkdir()
    said = faiss_index.build(vectors, folder, section.dense)
    return said, faiss_index.open_index(folder, said)


@pytest.mark.parametrize(("kind", "recall"), [("flat", 1.0), ("ivf", 0.95), ("hnsw", 0.95)])
def test_each_kind_finds_the_nearest(tmp_path: Path, index_section, kind: str, recall: float) -> None:
    vectors, queries = unit(3_000, seed=1), unit(50, seed=2)
    section = index_section(dense={"faiss": kind, "ivf": {"lists": 32, "probes": 12}})
    _, index = built(tmp_path / kind, section, vectors)
    scores, rows = index.search(queries, 5)
    nearest = np.argsort(-(queries @ vectors.T), axis=1)[:, :5]
    assert np.mean([len({*a} & {*b}) / 5 for a, b in zip(rows.tolist(), nearest.tolist(), strict=True)]) >= recall
    assert scores == pytest.approx(np.take_along_axis(queries @ vectors.T, rows, axis=1), abs=1e-5)


@pytest.mark.parametrize(("rows", "lists"), [(1, 1), (78, 2), (1_000, 25), (2_000, 32)])
def test_a_small_corpus_has_fewer_lists_and_says_so(tmp_path: Path, index_section, rows: int, lists: int) -> None:
    section = index_section(dense={"faiss": "ivf", "ivf": {"lists": 32, "probes": 32}})
    said, index = built(tmp_path / "ivf", section, unit(rows, seed=1))
    assert said == {"faiss": "ivf", "lists": lists, "probes": 32}
    # With as many probes as lists the search is exact.
    assert index.search(unit(1, seed=1), 1)[1][0, 0] == np.argmax(unit(rows, seed=1) @ unit(1, seed=1)[0])


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_equal_vectors_give_equal_bytes(
    tmp_path: Path, index_section, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "hnsw":  # several threads build another graph each time
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
    section, vectors = index_section(dense={"faiss": kind}), unit(2_000, seed=1)
    for name in ("one", "other"):
        built(tmp_path / name, section, vectors)
    assert (tmp_path / "one" / "index.faiss").read_bytes() == (tmp_path / "other" / "index.faiss").read_bytes()


def test_a_search_looks_as_far_as_the_parameters_say(tmp_path: Path, index_section) -> None:
    vectors = unit(2_000, seed=1)
    found = {}
    for probes in (1, 32):
        section = index_section(dense={"faiss": "ivf", "ivf": {"lists": 32, "probes": probes}})
        found[probes] = built(tmp_path / str(probes), section, vectors)[1].search(unit(20, seed=3), 200)[0]
    assert found[1].min() < -1 and found[32].min() > -1  # one list has no 200 vectors: what is missing scores lowest
