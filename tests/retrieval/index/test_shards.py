import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tasks.retrieval.index import progress
from tasks.retrieval.index.shards import Shards

BUILD = """
import os, signal, sys
from pathlib import Path
from tasks.params import Index
from tasks.retrieval.index import vectors
from tasks.retrieval.index.build import build
from tasks.retrieval.encoders.ngrams import Ngrams

corpus, folder, resume, section, die_after = sys.argv[1:]
vectors._NGRAM_ROWS = 3  # several shards of a small corpus
made, real = 0, Ngrams.vectors

def counted(self, counts):
    global made
    made += 1
    print("made", flush=True)
    if made == int(die_after):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, counts)

Ngrams.vectors = counted
Path(folder).mkdir(exist_ok=True)
build(Path(corpus), Path(folder), Index.model_validate_json(section), print, resume=Path(resume))
"""


def test_a_build_that_was_killed_goes_on_and_gives_the_same_bytes(tmp_path: Path, index_section, write_corpus) -> None:
    rows = [(f"p{n}", f"title {n}", f"words of passage {n * n}", None) for n in range(20)]
    corpus = write_corpus(tmp_path / "corpus.parquet", rows)
    section = index_section(build=["dense"], dense={"dimensions": 32}).model_dump_json()

    def build(folder: str, resume: str, die_after: int) -> tuple[int, int]:
        command = [sys.executable, "-c", BUILD, corpus, tmp_path / folder, tmp_path / resume, section, str(die_after)]
        ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout.splitlines().count("made")

    assert build("whole", "kept", 0) == (0, 7)
    assert build("killed", "resumed", 4) == (-signal.SIGKILL, 4)
    assert not (tmp_path / "killed" / "manifest.json").exists()
    assert build("killed", "resumed", 0) == (0, 4)  # three of seven shards were there
    files = {path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*") if path.is_file()}
    assert Path("dense/index.faiss") in files and Path("manifest.json") in files
    assert files == {
        path.relative_to(tmp_path / "killed") for path in (tmp_path / "killed").rglob("*") if path.is_file()
    }
    for file in files:
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "killed" / file).read_bytes(), file


def test_shards_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    asked = []

    def work(start: int, end: int) -> np.ndarray:
        asked.append((start, end))
        if start == 4 and len(asked) == 3:
            raise KeyboardInterrupt
        return np.full((end - start, 2), start, dtype=np.float32)

    store = Shards(tmp_path / "store", 5, 2, lambda line: None)
    with pytest.raises(KeyboardInterrupt):
        store.joined("x", 2, work)
    assert asked == [(0, 2), (2, 4), (4, 5)]
    assert store.joined("x", 2, work).tolist() == [[0, 0], [0, 0], [2, 2], [2, 2], [4, 4]]
    assert asked[3:] == [(4, 5)]
    store.joined("x", 2, work)
    assert len(asked) == 4 and [path.name for path in (tmp_path / "store").iterdir()] == ["x.npy"]


def test_progress_says_how_much_how_fast_and_how_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 4.0, 6.0, 8.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines: list[str] = []
    store = Shards(tmp_path, 4_000, 1_000, lines.append)
    store.make("x", ".npy", lambda start, end: np.zeros(1), lambda path, rows: np.save(path, rows))
    # 2,000 after 4 s; the next line would come 3 s later, when nothing is left.
    assert lines == ["x: 2,000 of 4,000 passages, 500/s, 4 s left"]
