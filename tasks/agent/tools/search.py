"""Search, in whatever the section `retrieval` names."""

from __future__ import annotations

import threading
from typing import Annotated, Any

from pydantic import BaseModel, Field

from tasks.agent.tools import Context, Passage, Result, State, Tool, register


class Query(BaseModel):
    """What to look for."""

    query: Annotated[str, Field(min_length=1, description="what to look for, in a few words")]


@register
class Search(Tool):
    """The best passages for a query."""

    name = "search"
    description = "looks passages up"
    Arguments = Query

    def __init__(self, context: Context) -> None:
        from tasks.retrieval import open_retriever
        from tasks.retrieval.index import manifest

        index, retrieval = context.index, context.retrieval
        # A server must search the corpus whose questions are played.
        corpus = manifest.read(index)["corpus_sha256"] if retrieval.server is not None and index is not None else None
        self._retriever, self._topk = open_retriever(index, retrieval, corpus), retrieval.topk
        self._opening = threading.Lock()

    @classmethod
    def usage(cls) -> str:
        return "<search> query </search> looks passages up; they come back inside <information> </information>."

    def call(self, arguments: Query, state: State) -> Result:
        with self._opening:  # calls of one turn come side by side
            if "session" not in state:
                state["session"] = self._retriever.session()
        hits: list[Any] = state["session"].search([arguments.query], self._topk)[0]
        found = tuple(Passage(str(hit.passage.id), hit.passage.title, hit.passage.text) for hit in hits)
        return Result("" if found else "No results.", found)
