"""Search in the index that stage `index` has built."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from tasks.agent.tools import Context, Passage, Result, State, Tool, register
from tasks.errors import InputError


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

        if context.index is None:
            raise InputError("the tool search needs an index", where="tools.names", mend="leave it out")
        self._retriever, self._topk = open_retriever(context.index, context.retrieval), context.retrieval.topk

    @classmethod
    def usage(cls) -> str:
        return "<search> query </search> looks passages up; they come back inside <information> </information>."

    def call(self, arguments: Query, state: State) -> Result:
        hits: list[Any] = self._retriever.search([arguments.query], self._topk)[0]
        found = tuple(Passage(str(hit.passage.id), hit.passage.title, hit.passage.text) for hit in hits)
        return Result("" if found else "No results.", found)
