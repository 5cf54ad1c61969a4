import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InputError
from tasks.params import Index
from tasks.retrieval import Passage, open_retriever
from tasks.retrieval.index.build import build
from tasks.retrieval.index.passages import Passages, read_corpus, write


def refuse(corpus: Path, params: Index) -> str:
    folder = corpus.parent / "index"
    folder.mkdir()
    with pytest.raises(InputError) as caught:
        build(corpus, folder, params, lambda line: None)
    return str(caught.value)


@pytest.mark.parametrize("retriever", ["bm25", "dense"])
def test_titles_find_their_passages(index: Path, retrieval, retriever: str) -> None:
    found = open_retriever(index, retrieval(retriever)).search(["Rome", "Zurich", "ITALY"], 1)
    assert [[hit.passage.id for hit in hits] for hits in found] == [["p0"], ["p1"], ["p2"]]


@pytest.mark.parametrize("retriever", ["bm25", "dense"])
def test_hits_are_ranked_and_empty_queries_find_nothing(index: Path, retrieval, retriever: str) -> None:
    hits, none = open_retriever(index, retrieval(retriever)).search(["capital of Italy", ""], 10)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].passage.id == "p0" and len(hits) >= 2
    assert none == []


def test_dense_scores_are_cosines(index: Path, retrieval) -> None:
    retriever = open_retriever(index, retrieval("dense"))
    hit = retriever.search(["Italy\nItaly is a country."], 1)[0][0]
    assert hit.passage.id == "p2" and hit.score == pytest.approx(1.0, abs=1e-5)


def test_a_search_alone_equals_the_same_search_among_many(index: Path, retrieval) -> None:
    retriever = open_retriever(index, retrieval("dense"))
    queries = [f"{word} city {n}" for n in range(30) for word in ("Rome", "large")]
    assert retriever.search(queries, 3) == [retriever.search([query], 3)[0] for query in queries]


def test_passages_come_back_whole(index: Path, retrieval) -> None:
    assert len(open_retriever(index, retrieval()).search(["word7"], 1)[0][0].passage.text.split()) == 50
    passages = Passages(index)
    assert passages.by_id("p0") == Passage("p0", "Rome", "Rome is the capital of Italy.", "https://example.org/rome")
    assert passages.at(1).url is None


def test_an_unknown_id_is_refused(index: Path) -> None:
    with pytest.raises(InputError, match="no passage with id 'p9'"):
        Passages(index).by_id("p9")


def test_equal_corpora_give_equal_bytes_in_every_process(index: Path, tmp_path: Path, index_params: Index) -> None:
    code = (
        "import sys; from pathlib import Path; from tasks.params import Index;"
        "from tasks.retrieval.index.build import build;"
        "build(Path(sys.argv[1]), Path(sys.argv[2]), Index.model_validate_json(sys.argv[3]), print)"
    )
    arguments = [str(index.parent / "corpus.parquet"), str(tmp_path), index_params.model_dump_json()]
    subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        stdout=subprocess.DEVNULL,
    )

    def digests(folder: Path) -> dict[str, str]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    assert digests(tmp_path) == digests(index)


def test_nothing_is_pickled(index: Path) -> None:
    for path in index.rglob("*"):
        if path.suffix == ".npz":
            assert b".npy" in path.read_bytes()[:200]
        assert path.suffix not in {".pkl", ".pickle"}


def test_the_manifest_names_the_corpus(index: Path) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    assert manifest["corpus_sha256"] == hashlib.sha256((index.parent / "corpus.parquet").read_bytes()).hexdigest()
    assert manifest["passages"] == 4 and manifest["parts"]["bm25"] == {"k1": 1.2, "b": 0.75, "stemmer": None}


@pytest.mark.parametrize("content", [None, "{", "[]", '{"passages": 4}'])
def test_a_folder_without_a_whole_manifest_is_refused(
    index: Path, tmp_path: Path, retrieval, content: str | None
) -> None:
    shutil.copytree(index, tmp_path / "copy")
    manifest = tmp_path / "copy" / "manifest.json"
    manifest.unlink()
    if content is not None:
        manifest.write_text(content)
    with pytest.raises(InputError, match="dvc repro index"):
        open_retriever(tmp_path / "copy", retrieval())


def test_wrong_corpora_are_refused(tmp_path: Path, index_params: Index, write_corpus) -> None:
    for number, (rows, message) in enumerate(
        [([], "no passages"), ([("a", "t", "x", None), ("a", "u", "y", None)], "passage id 'a' occurs twice")]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert message in refuse(write_corpus(folder / "corpus.parquet", rows), index_params)
    folder = tmp_path / "column"
    folder.mkdir()
    pq.write_table(pa.table({"id": ["a"], "title": ["t"]}), folder / "corpus.parquet")
    assert "no column 'text'" in refuse(folder / "corpus.parquet", index_params)


def test_fifty_thousand_passages_open_at_once(tmp_path: Path, write_corpus) -> None:
    rows = [(f"p{n}", f"title {n}", "some words of a passage " * 10, None) for n in range(50_000)]
    write(read_corpus(write_corpus(tmp_path / "corpus.parquet", rows)), tmp_path, "hash")
    start = time.perf_counter()
    passages = Passages(tmp_path)
    assert passages.by_id("p49999").title == "title 49999" and len(passages) == 50_000
    assert time.perf_counter() - start < 2
