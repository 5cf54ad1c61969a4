import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import params
from tasks.agent import prompts, protocols
from tasks.agent.prompts import Template, template, usage_of
from tasks.agent.toolbox import Tool, known_tools, register
from tasks.errors import InputError

PROTOCOL = protocols.create("search-r1", ["search"])


@pytest.fixture(scope="module")
def made(defaults):
    def of(prompt: Any, usage: str = "", protocol: str = "search-r1", **more: Any) -> Template:
        prompt = params.models.Messages(**prompt) if isinstance(prompt, dict) else prompt
        episode = defaults.episode.model_copy(update={"prompt": prompt, **more})
        return template(episode, protocols.create(protocol, ["search"]), usage)

    return of


def test_a_text_is_one_message_of_the_user(made) -> None:
    assert made("Answer.\nQuestion: {question}").messages(" Who?\n") == [
        {"role": "user", "content": "Answer.\nQuestion: Who?"}
    ]


def test_two_texts_are_two_messages(made) -> None:
    of = made({"system": "Use {tools}", "user": "{question} Again: {question}"}, "TOOLS")
    assert of.messages("Who?") == [
        {"role": "system", "content": "Use TOOLS"},
        {"role": "user", "content": "Who? Again: Who?"},
    ]
    assert of.words == "Use TOOLS\n Again: "


@given(
    st.lists(st.sampled_from(["{question}", "{", "}", "{}", "{0}", "{x!r}", "{{question}}", "%s", "\\1", "a"])),
    st.text(max_size=20) | st.sampled_from(["{tools}", "{example} {question}", "\\g<0>"]),
)
def test_braces_and_questions_stay_as_they_are(made, pieces: list[str], question: str) -> None:
    prompt = "".join(pieces)
    (message,) = made(prompt, "USAGE", example_answer="x").messages(question)
    assert message["content"] == prompt.replace("{question}", question.strip())


def test_what_is_put_in_is_not_read_again(made) -> None:
    of = made("{tools} {example} {question}", "usage of {question} {example}", example_answer="{tools}")
    assert of.messages("q")[0]["content"] == (
        "usage of {question} {example} An answer looks like this: <answer> {tools} </answer> q"
    )


@pytest.mark.parametrize(
    ("protocol", "shown"),
    [
        ("search-r1", "<answer> Oslo </answer>"),
        ("research", "<answer> Oslo [1] </answer>"),
        ("hermes", "<answer> Oslo </answer>"),
    ],
)
def test_the_example_is_an_answer_in_the_protocols_form(made, protocol: str, shown: str) -> None:
    content = made("{example}|{question}", protocol=protocol, example_answer="Oslo").messages("q")[0]["content"]
    assert content == f"An answer looks like this: {shown}|q"
    # What is counted as a copy of it is the answer alone.
    of = protocols.create(protocol, ["search"])
    assert of.citations(of.answers(content)[0])[0] == "Oslo"
    assert made("{example}|{question}", protocol=protocol).messages("q")[0]["content"] == "|q"


def test_an_example_that_is_shown_nowhere_is_refused(make_stage) -> None:
    with pytest.raises(InputError, match=r"episode\.example_answer: is shown nowhere, .* does not hold \{example\}"):
        make_stage("ingest", episode={"example_answer": "Oslo"})
    two = {"system": "{example}", "user": "{question}"}
    assert make_stage("ingest", episode={"example_answer": "Oslo", "prompt": two})


def test_usage_is_told_in_the_protocols_own_words(defaults) -> None:
    assert usage_of(["search"], PROTOCOL).startswith("<search> query </search>")
    hermes = protocols.create("hermes", ["search"])
    (line,) = usage_of(["search"], hermes).splitlines()
    told = json.loads(line)
    assert set(told) == {"name", "description", "parameters"} and told["name"] == "search"
    assert told["parameters"]["required"] == ["query"]


def test_a_usage_that_needs_an_open_tool_is_refused() -> None:
    class Odd(Tool):
        name, description = "odd", "x"

        def usage(self) -> str:
            return "x"

    with pytest.raises(ValueError, match="tool 'odd': usage must be a classmethod"):
        register(Odd)


def test_tools_are_looked_up_where_the_prompt_tells_of_them(defaults) -> None:
    # A server elsewhere may have tools whose files are not here.
    tools = defaults.tools.model_copy(update={"names": ["serch"]})
    assert prompts.of_params(defaults.episode, tools).messages("Who?")[0]["content"].endswith("Question: Who?")
    telling = defaults.episode.model_copy(update={"prompt": "{tools} {question}"})
    with pytest.raises(InputError, match=r"no tool 'serch'; did you mean 'search'"):
        prompts.of_params(telling, tools)


@pytest.mark.parametrize(("name", "owner"), [("search-r1", "usage"), ("hermes", "schema")])
def test_a_tool_that_cannot_say_how_it_is_called_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, owner: str
) -> None:
    def broken(cls: object) -> str:
        raise RuntimeError("no words")

    tool = known_tools()["search"]
    monkeypatch.setattr(tool, owner, classmethod(broken))
    with pytest.raises(InputError, match="tool 'search' cannot be used: RuntimeError: no words"):
        usage_of(["search"], protocols.create(name, ["search"]))
