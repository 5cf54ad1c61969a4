import asyncio
from collections.abc import Callable

from tasks.agent.protocols import Call
from tasks.agent.toolbox import Context, Limits, Toolbox
from tasks.agent.toolbox.running import build
from tasks.params import Retrieval


def test_an_episode_has_two_calls_and_its_failures_have_names(fake, retrieval: Callable[..., Retrieval]) -> None:
    section = retrieval("wikipedia", wikipedia={"endpoint": fake.endpoint, "contact": "someone@example.org"})

    async def play() -> None:
        tools = Toolbox(build(["search"], Context(None, section)), Limits(seconds=10, characters=1000, parallel=4))

        async def search(episode: str, *queries: str) -> list[str]:
            found = await tools.call(episode, [Call("search", query) for query in queries])
            return [result.failure or ", ".join(p.title for p in result.passages) for result in found]

        assert await search("a", "rome") == ["Rome"]
        assert sorted(await search("a", "italy", "empire", "rome")) == ["Rome", *sorted(["spent", last(fake)])]
        assert len(fake.calls) == 2
        assert await search("b", "mediterranean") == ["Roman Empire"]
        fake.script = [lambda handler: handler.connection.close()]
        assert await search("b", "capital") == ["unavailable"]
        assert await search("b", "capital") == ["spent"]
        assert len(fake.calls) == 4

    asyncio.run(play())


def last(fake) -> str:
    """What the query found that was called last: side by side, either of two may have been the first."""
    return {"italy": "Rome, Italy", "empire": "Roman Empire"}[fake.calls[-1]["gsrsearch"]]
