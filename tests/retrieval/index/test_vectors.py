from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.retrieval.encoders import sentences
from tasks.retrieval.index import vectors
from tasks.retrieval.index.build import build


@pytest.mark.parametrize("encoder", ["minilm", "no/such/folder"])
def test_an_encoder_that_is_not_there_ends_the_build_with_one_line(
    index: Path, tmp_path: Path, index_section, monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    monkeypatch.setattr(sentences, "_MINILM", "no_such_package")
    monkeypatch.setattr(vectors, "version", lambda name: pytest.fail("versions are asked only of what is there"))
    params = index_section(build=["dense"], dense={"encoder": encoder})
    with pytest.raises(InputError, match=r"index\.dense\.encoder: "):
        build(index.parent / "corpus.parquet", tmp_path, params, lambda line: None)
    assert not (tmp_path / "manifest.json").exists()


def test_other_vectors_have_shards_of_their_own(index: Path, tmp_path: Path, index_section) -> None:
    for name, dense in (("a", {}), ("b", {"faiss": "ivf"}), ("c", {"dimensions": 32}), ("d", {"ngrams": [2, 3]})):
        (tmp_path / name).mkdir()
        params = index_section(build=["dense"], dense={"dimensions": 64, **dense})
        build(index.parent / "corpus.parquet", tmp_path / name, params, lambda line: None, resume=tmp_path / "resume")
    # How faiss looks into them does not change the vectors.
    assert len(list((tmp_path / "resume").iterdir())) == 3
