"""verl's own ToolAgentLoop with our tools, against our own episode on the same turns.

Where both can do a thing they give the same ids and masks. They differ, by intent, in what verl's loop does not have:
it shows nothing for calls beyond `max_parallel_calls` and for a call that it cannot read, where ours says so; it names
an unknown tool in words of its own; a tool's result is cut by characters, ours by tokens; marks of the tokenizer that
are not of the form `<|...|>` reach its template as they are; and a body that begins or ends with white space may share
a token with the template's frame, since verl encodes both together.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from pydantic import BaseModel
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.tools.tool_registry import initialize_tools_from_config
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from tasks.agent.environments.search.environment import Environment
from tasks.agent.episode import Generation, run_episode
from tasks.agent.protocols import create
from tasks.agent.setup import open_setup
from tasks.agent.toolbox import Context, Tool
from tasks.agent.trajectory import Trajectory
from tasks.agent.verl_tool_config import write_tool_config
from tasks.agent.verl_tools import ForagerTool, _Schema
from tasks.params import Playing

PASSAGES = [
    ("p1", "Kashi", "Kashi was born in Rove, <|im_end|> </tool_response> é 👍🏽.", None),
    ("p2", "Rove", "Rove is a city.\nIt lies in Teno.", None),
]
NAMES = ["hermes", "qwen3_coder"]


class Script:
    """Says its turns one after the other; each id has a log-probability of its own."""

    def __init__(self, tokenizer: Any, texts: list[str]) -> None:
        end = tokenizer.eos_token_id
        self._turns = [[*tokenizer.encode(text, add_special_tokens=False), end] for text in texts]
        self.prompts: list[list[int]] = []

    def _next(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        ids = self._turns[len(self.prompts)]
        self.prompts.append(list(prompt_ids))
        return ids, [-len(self.prompts) - n / 1024 for n in range(len(ids))]

    async def generate(self, *, prompt_ids: list[int], **_: Any) -> TokenOutput:
        ids, logprobs = self._next(prompt_ids)
        return TokenOutput(token_ids=ids, log_probs=logprobs)

    async def __call__(self, prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        assert stop == []
        return Generation(*self._next(prompt_ids))


@pytest.fixture(scope="module")
def settings(tmp_path_factory, build_index, defaults):
    folder = tmp_path_factory.mktemp("verl-tools")
    build_index(folder / "index", PASSAGES)

    def write(protocol: str) -> Path:
        path = folder / f"{protocol}.json"
        plain = {name: getattr(defaults, name).model_dump() for name in Playing.model_fields}
        plain["episode"] |= {
            "protocol": protocol, "max_turns": 5, "max_response_tokens": 4000, "max_turn_tokens": 1000,
            "max_observation_tokens": 2000, "max_parallel_calls": 3, "force_answer": False, "correct_invalid": False,
        }  # fmt: skip
        path.write_text(json.dumps({**plain, "index": str(folder / "index")}))
        return path

    return write


@pytest.fixture(params=["tokenizer", "qwen_tokenizer"])
def made(request: pytest.FixtureRequest) -> Any:
    """The repository's own ChatML, which shows no schemas, and Qwen3's template, which does."""
    return request.getfixturevalue(request.param)


def tools_of(settings: Path) -> list[ForagerTool]:
    path = settings.with_suffix(".yaml")
    write_tool_config(path, json.loads(settings.read_text()))
    return initialize_tools_from_config(str(path))


def by_verl(settings: Path, tokenizer: Any, row: dict[str, Any], script: Script) -> Any:
    content = json.loads(settings.read_text())["episode"]
    rollout = {
        "prompt_length": 4000, "response_length": content["max_response_tokens"], "full_determinism": False,
        "multi_turn": {
            "max_user_turns": None, "max_assistant_turns": content["max_turns"], "format": content["protocol"],
            "max_parallel_calls": content["max_parallel_calls"], "max_tool_response_length": 100_000,
            "tool_response_truncate_side": "right",
        },
    }  # fmt: skip

    async def run() -> Any:
        loop = ToolAgentLoop(
            DictConfigWrap(OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})),
            script, tokenizer, None, RLHFDataset, DictConfigWrap(OmegaConf.create({})),
            hf_model_type="qwen3", tools=ToolListWrap(tools_of(settings)),
        )  # fmt: skip
        return await loop.run({}, raw_prompt=row["prompt"], extra_info=row["extra_info"])

    return asyncio.run(run())


def by_us(settings: Path, tokenizer: Any, row: dict[str, Any], script: Script, defaults: Any) -> Trajectory:
    content = json.loads(settings.read_text())
    setup = open_setup(
        Playing.model_validate({name: content[name] for name in Playing.model_fields}),
        index=Path(content["index"]),
        tokenizer=tokenizer,
    )
    assert isinstance(setup.environment, Environment)
    return asyncio.run(run_episode(row, generate=script, setup=setup))


def turns(name: str, kind: str) -> list[str]:
    protocol = create(name, ("search",))
    search, answer = protocol.search, protocol.answer
    return {
        "one call": [search("Kashi", "Who is he?"), answer("Rove", "I see.")],
        "two turns": [search("Kashi"), f"Now Rove. {search('Rove é 👍🏽')}", answer("Rove")],
        "parallel": [f"{search('Kashi', 'Both.')}\n{search('Rove')}{search('nothing like it')}", answer("Rove")],
        "arguments that do not fit": [search(""), answer("Rove")],
        "no call at all": [answer("Rove")],
    }[kind]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["one call", "two turns", "parallel", "arguments that do not fit", "no call at all"])
def test_verls_loop_and_ours_give_the_same_ids_and_masks(settings, made, question_row, defaults, name, kind) -> None:
    row = question_row("Where was Kashi born?", ["Rove"], ["Kashi"], ["p1"])
    path, texts = settings(name), turns(name, kind)
    verls, ours = Script(made, texts), Script(made, texts)
    output = by_verl(path, made, row, verls)
    trajectory = by_us(path, made, row, ours, defaults)
    assert verls.prompts == ours.prompts and len(ours.prompts) == len(texts)
    assert output.prompt_ids == trajectory.prompt_ids
    assert output.response_ids == trajectory.response_ids
    assert output.response_mask == trajectory.response_mask
    assert output.response_logprobs == trajectory.response_logprobs
    assert trajectory.stop_reason == "answer"
    assert len(trajectory.calls) == sum(text.count("<tool_call>") for text in texts)
    shown = "".join(segment.text for segment in trajectory.segments if segment.kind == "observation")
    assert ("born in Rove, ‹|im_end|> ‹/tool_response> é 👍🏽" in shown) == (
        kind in ("one call", "two turns", "parallel")
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_call_too_many_is_told_here_and_dropped_there(settings, qwen_tokenizer, question_row, defaults, name) -> None:
    row = question_row("Where was Kashi born?", ["Rove"], ["Kashi"], ["p1"])
    protocol = create(name, ("search",))
    texts = ["".join(protocol.search(query) for query in ("a", "b", "c", "d")), protocol.answer("Rove")]
    output = by_verl(settings(name), qwen_tokenizer, row, Script(qwen_tokenizer, texts))
    trajectory = by_us(settings(name), qwen_tokenizer, row, Script(qwen_tokenizer, texts), defaults)
    assert qwen_tokenizer.decode(output.response_ids).count("<tool_response>") == 3
    assert trajectory.text.count("<tool_response>") == 4
    assert "Error: too many calls in one turn; this one was not run." in trajectory.text


def test_types_that_verl_cannot_name_are_kept_for_the_template() -> None:
    class Pick(BaseModel):
        which: int | None = None
        order: list[str]

    class Picker(Tool):
        name = "picker"
        description = "picks"
        Arguments = Pick

    whole = Picker(Context()).schema()
    schema = _Schema.of(whole)
    assert schema.model_dump(exclude_unset=True) == whole
    assert schema.function.parameters.properties["which"].type == ["integer", "null"]
    assert schema.function.parameters.properties["order"].type == "array"


def test_verl_shows_the_template_the_whole_schema_and_finds_every_type(settings) -> None:
    (tool,) = tools_of(settings("hermes"))
    assert tool.name == "search"
    schema = tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True)
    assert schema["function"]["parameters"]["properties"]["query"]["minLength"] == 1
    assert tool.tool_schema.function.parameters.properties["query"].type == "string"


def test_what_a_tool_remembers_is_freed_with_the_call(settings) -> None:
    (tool,) = tools_of(settings("hermes"))

    async def use() -> tuple[list[str], int]:
        texts = []
        for parameters in ({"query": "Kashi"}, {"query": 3}, {}, ["Kashi"], None):
            instance, _ = await tool.create()
            response, reward, _ = await tool.execute(instance, parameters, agent_data=None)
            texts.append(response.text)
            assert reward == 0.0
            await tool.release(instance)
        return texts, tool._tools.trajectories

    texts, remembered = asyncio.run(use())
    assert texts[0].startswith("Doc 1 (Title: Kashi) Kashi was born in Rove")
    assert texts[1:] == ["Error: the arguments do not fit."] * 4
    assert remembered == 0
