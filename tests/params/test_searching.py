from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks import params
from tasks.errors import InputError

WIKIPEDIA = {"retriever": "wikipedia", "wikipedia": {"contact": "me@example.org"}}


def resolved(workspace: Path, sections: dict[str, Any]) -> params.Params:
    (workspace / "params" / "mine.yaml").write_text(yaml.safe_dump(sections))
    return params.parse(params.resolve("mine"), where="mine")


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"retrieval": {"retriever": "faiss"}}, "retrieval.retriever: Input should be 'bm25', 'dense'"),
        (
            {"index": {"build": ["bm25"]}, "retrieval": {"retriever": "hybrid"}},
            "retrieval.retriever: hybrid needs dense, which index.build does not list",
        ),
        (
            {"retrieval": {"retriever": "qdrant"}},
            "retrieval.retriever: qdrant needs qdrant, which index.build does not list",
        ),
        ({"retrieval": {"server": "localhost:8000"}}, "retrieval.server: 'localhost:8000' is no address; name one"),
        (
            {"retrieval": {"server": "start", "seconds": 10}},
            "retrieval.seconds: 10 must be less than one call may take, episode.tool_seconds: 10",
        ),
        ({"retrieval": {"retriever": "wikipedia"}}, "retrieval.wikipedia.contact: Wikimedia's rules ask for"),
        (
            {"retrieval": {**WIKIPEDIA, "server": "start"}},
            "retrieval.server: with retriever wikipedia it must be null",
        ),
        (
            {
                "retrieval": {
                    "retriever": "wikipedia",
                    "wikipedia": {"contact": "me@example.org", "endpoint": "http://en.wikipedia.org/w/api.php"},
                }
            },
            "retrieval.wikipedia.endpoint: must start with https://",
        ),
        (
            {"index": {"build": ["qdrant"]}, "retrieval": {"retriever": "qdrant", "server": "start"}},
            "retrieval.workers: Qdrant in data/index is open to one process; set 1",
        ),
        ({"index": {"build": ["bm26"]}}, "index.build.0: Input should be 'bm25', 'dense' or 'qdrant'"),
        ({"index": {"bm25": {"stemmer": "french"}}}, "index.bm25.stemmer: Input should be 'english', got 'french'"),
        ({"index": {"dense": {"ngrams": [5, 3]}}}, "index.dense: ngrams: the shortest comes first, got [5, 3]"),
        ({"index": {"dense": {"ivf": {"probes": 2000}}}}, "index.dense: ivf.probes: more than ivf.lists, 1024"),
        ({"retrieval": {"workers": 257}}, "retrieval.workers: Input should be less than or equal to 256, got 257"),
        ({"tools": {"workers": 10**9}}, "tools.workers: Input should be less than or equal to 256, got 1000000000"),
        ({"index": {"build": ["bm25", "bm25"]}}, "index: build: one is named twice in ['bm25', 'bm25']"),
        (
            {"index": {"dense": {"encoder": "nonsense"}}},
            "index.dense.encoder: 'nonsense' is no folder; encoders are: ngrams, minilm",
        ),
        (
            {"retrieval": {"qdrant": {"url": "ftp://x"}}},
            "retrieval.qdrant.url: 'ftp://x' is no address; name one",
        ),
        ({"retrieval": {**WIKIPEDIA, "topk": 21}}, "retrieval.topk: Wikipedia brings at most 20 pages a call, not 21"),
        *(
            (
                {"retrieval": {"retriever": "wikipedia", "wikipedia": {"contact": contact}}},
                "retrieval.wikipedia.contact: Wikimedia's rules ask for",
            )
            for contact in ("", "x", "a@b.c\r\nx-evil: 1")
        ),
        ({"retrieval": {"passage_words": 60}}, "unknown key 'retrieval.passage_words'"),
    ],
)
def test_what_cannot_search_is_refused(workspace: Path, sections: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        resolved(workspace, sections)
    files = "params/mine.yaml over params/presets/algorithms/grpo.yaml over params/defaults.yaml"
    assert str(caught.value).startswith(f"{files}: {line}")


@pytest.mark.parametrize(
    "sections",
    [
        {"retrieval": {"retriever": "hybrid"}},
        {"retrieval": {"seconds": 60}},  # of no account where all is in this process
        {"retrieval": WIKIPEDIA},
        {"index": {"build": ["qdrant"]}, "retrieval": {"retriever": "qdrant", "server": "start", "workers": 1}},
        {"index": {"build": ["qdrant"]}, "retrieval": {"retriever": "qdrant", "qdrant": {"url": "http://localhost"}}},
    ],
)
def test_what_can_search_is_taken(workspace: Path, sections: dict[str, Any]) -> None:
    wanted = sections["retrieval"]
    assert (
        resolved(workspace, sections).retrieval.model_dump(include=set(wanted)).items()
        >= {key: value for key, value in wanted.items() if not isinstance(value, dict)}.items()
    )


def test_the_default_searches_in_the_process_itself(workspace: Path) -> None:
    playing = params.Playing.of(params.parse(params.resolve("tiny"), where="tiny"))
    assert (playing.retrieval.server, playing.tools.server, playing.retrieval.retriever) == (None, None, "bm25")
