"""Serves retrieval over HTTP: `python -m tasks.retrieval_server --help`; see docs/retrieval-server.md."""

from tasks.retrieval.service.command import run

if __name__ == "__main__":
    run()
