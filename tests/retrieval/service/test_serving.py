from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tasks.errors import CrashError, InputError
from tasks.retrieval.service.serving import retrieval_server


@pytest.mark.parametrize("server", [None, "http://127.0.0.1:9"])
def test_what_needs_no_start_is_left_as_it_is(retrieval: Any, server: str | None) -> None:
    section = retrieval("bm25", server=server)
    before = psutil.Process().children()
    with retrieval_server(section, None, print) as got:
        assert got is section and psutil.Process().children() == before


def test_a_server_is_started_and_ended(retrieval: Any, index: Path, gone: Any) -> None:
    said: list[str] = []
    with retrieval_server(retrieval("bm25", server="start", workers=1), index, said.append) as got:
        assert httpx.get(f"{got.server}/ready").json()["workers"] == 1
        assert said == [f"retrieval server at {got.server}: bm25, 1 workers"]
        family = psutil.Process().children(recursive=True)
    assert gone(family)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{got.server}/health")


@pytest.mark.parametrize("index", [None, Path("/nowhere")])
def test_no_index_is_one_line(retrieval: Any, index: Path | None) -> None:
    with (
        pytest.raises(InputError, match="no index"),
        retrieval_server(retrieval("bm25", server="start"), index, print),
    ):
        pass


def test_a_server_that_crashes_says_its_last_lines(
    retrieval: Any, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An installation that lacks what the server's command needs.
    (tmp_path / "uvloop.py").write_text("raise ImportError('no uvloop for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CrashError) as caught, retrieval_server(retrieval("bm25", server="start"), index, print):
        pass
    line = str(caught.value)
    assert line.startswith("the retrieval server ended with status 1 before it was ready; its last lines: ")
    assert line.endswith(" | ImportError: no uvloop for this machine") and "\n" not in line
