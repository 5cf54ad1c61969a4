import json
import shutil
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.retrieval import open_retriever
from tasks.retrieval.index.build import build


@pytest.fixture
def copy(index: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(index, tmp_path / "index"))


def refused(*arguments) -> str:
    with pytest.raises(InputError) as caught:
        open_retriever(*arguments)
    return str(caught.value)


def test_the_corpus_that_is_meant_is_opened(index: Path, retrieval) -> None:
    digest = json.loads((index / "manifest.json").read_text())["corpus_sha256"]
    for name in ("bm25", "dense", "hybrid"):
        assert open_retriever(index, retrieval(name), digest).search(["Rome"], 1)[0][0].passage.id == "p0"


@pytest.mark.parametrize("name", ["bm25", "dense", "hybrid"])
def test_another_corpus_is_refused(index: Path, retrieval, name: str) -> None:
    line = refused(index, retrieval(name), "0123456789abcdef" * 4)
    assert str(index) in line and "corpus 0123456789ab is meant" in line and "dvc repro index" in line


@pytest.mark.parametrize("part", ["bm25", "dense"])
def test_parts_of_different_corpora_are_refused(copy: Path, retrieval, part: str) -> None:
    about = copy / part / "part.json"
    about.write_text(about.read_text().replace(json.loads(about.read_text())["corpus_sha256"], "f" * 64))
    assert "this part is of corpus ffffffffffff" in refused(copy, retrieval("hybrid"))
    about.unlink()
    assert "dvc repro index" in refused(copy, retrieval(part))


def test_the_vectors_encoder_of_another_corpus_is_refused(copy: Path, retrieval) -> None:
    about = copy / "encoder" / "part.json"
    about.write_text(json.dumps({"corpus_sha256": "f" * 64}))
    assert "encoder: this part is of corpus ffffffffffff" in refused(copy, retrieval("dense"))
    open_retriever(copy, retrieval("bm25"))


@pytest.mark.parametrize(
    ("built", "name", "lacks"),
    [(["bm25"], "dense", "dense"), (["dense"], "hybrid", "bm25"), (["bm25"], "qdrant", "qdrant")],
)
def test_a_part_that_was_not_built_is_named(
    index: Path, tmp_path: Path, index_section, retrieval, built: list[str], name: str, lacks: str
) -> None:
    params = index_section(build=built, dense={"dimensions": 32})
    build(index.parent / "corpus.parquet", tmp_path, params, lambda line: None)
    line = refused(tmp_path, retrieval(name))
    assert f"{name!r} needs {lacks}, and the index holds {built[0]}" in line and "index.build" in line


def test_no_index_is_refused(retrieval) -> None:
    assert "no index" in refused(None, retrieval())


def test_passages_of_another_corpus_are_refused(
    copy: Path, tmp_path: Path, index_section, retrieval, write_corpus
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    corpus = write_corpus(tmp_path / "other.parquet", [("q0", "Oslo", "Oslo is the capital of Norway.", None)])
    build(corpus, other, index_section(build=["bm25"]), lambda line: None)
    shutil.copy(other / "passages.arrow", copy)
    line = refused(copy, retrieval())
    assert "passages.arrow: this part is of corpus" in line and "dvc repro index" in line


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bm25", "passages.arrow"),
        ("bm25", "bm25/vocab.index.json"),
        ("bm25", "bm25/params.index.json"),
        ("bm25", "bm25/indptr.csc.index.npy"),
        ("bm25", "bm25/data.csc.index.npy"),
        ("dense", "dense/index.faiss"),
        ("dense", "encoder/idf.npy"),
        ("dense", "encoder/projection.npz"),
    ],
)
@pytest.mark.parametrize("harm", ["missing", "empty", "cut"])
def test_a_file_that_is_missing_or_cut_off_is_named_in_one_line(
    copy: Path, retrieval, name: str, file: str, harm: str
) -> None:
    path = copy / file
    content = path.read_bytes()
    path.unlink()
    if harm != "missing":
        path.write_bytes(b"" if harm == "empty" else content[: len(content) // 2])
    line = refused(copy, retrieval(name))
    assert line.startswith(str(copy)) and "cannot be read" in line and "dvc repro index" in line and "\n" not in line


def test_a_manifest_that_is_no_file_is_refused(copy: Path, retrieval) -> None:
    (copy / "manifest.json").unlink()
    (copy / "manifest.json").mkdir()
    assert "manifest.json: cannot be read" in refused(copy, retrieval())
    assert "cannot be read" in refused(copy / "passages.arrow", retrieval())
