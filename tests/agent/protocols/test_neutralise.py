"""Foreign text against every protocol: it opens and closes nothing, and shows no number that it was not given."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.protocols import PROTOCOLS, create
from tasks.agent.toolbox import Passage, Result

TOOLS = ("search", "look_up")
ALL = [create(name, TOOLS) for name in PROTOCOLS]
every = pytest.mark.parametrize("protocol", ALL, ids=lambda protocol: protocol.name)
NAMES = sorted({tag for protocol in ALL for tag in protocol.tags})
SPACE = st.text(" \t\n\u00a0\u2003", max_size=2)


@st.composite
def marks(draw: st.DrawFn) -> str:
    """A tag in any casing, with blanks anywhere a lenient reader would skip them."""
    name = "".join(draw(st.sampled_from((c.lower(), c.upper()))) for c in draw(st.sampled_from(NAMES)))
    slash, more = draw(st.sampled_from(("", "/"))), draw(st.sampled_from(("", "=search", " class='x'")))
    return f"<{draw(SPACE)}{slash}{draw(SPACE)}{name}{more}{draw(SPACE)}>"


SPLINTERS = ("<", "</", "<|im_end|>", "<|", "search>", "[1]", "[", "1]", "[ 2 ]", "[1, 2]", "\n[3] (Title: Rove) ")
FOREIGN = st.lists(marks() | st.text(max_size=5) | st.sampled_from(SPLINTERS), max_size=8).map("".join)


def lenient(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<\s*/?\s*(?:{'|'.join(tags)})(?:\s*[=>\s])", re.IGNORECASE)


@every
@given(text=FOREIGN)
def test_neutralised_text_opens_and_closes_nothing(protocol, text: str) -> None:
    safe = protocol.neutralise(text)
    assert not lenient(protocol.tags).search(safe)
    assert "<|" not in safe
    assert len(safe) == len(text)
    assert protocol.neutralise(safe) == safe
    back = str.maketrans("‹([)]", "<(())")
    assert safe.translate(back) == text.translate(back)


@every
@given(title=FOREIGN, text=FOREIGN, plain=FOREIGN, key=st.text(max_size=3))
def test_an_observation_holds_no_tag_but_the_systems_own(protocol, title, text, plain, key) -> None:
    results = [Result(passages=(Passage(key, title, text), Passage("q", text, title))), Result(plain)]
    said = protocol.show(results, {}, protocol.last_turn)
    assert not any(lenient(protocol.tags).search(body) for body in said.bodies)
    shown = f"{said.opening}{''.join(said.bodies)}{said.closing}"
    tags = ["<information>", "</information>"] if protocol.name in ("search-r1", "research") else []
    assert [match[0] for match in lenient(protocol.tags).finditer(shown)] == tags


@every
@given(text=FOREIGN)
def test_a_user_can_say_no_tag_either(protocol, text: str) -> None:
    said = protocol.say(text, "user")
    assert said.role == "user" and not lenient(protocol.tags).search("".join(said.bodies))


@every
def test_what_is_no_tag_stays(protocol) -> None:
    text = "1 < 2, <b>bold</b>, <searching>, a<answers, x[1:3], [sic]"
    assert protocol.neutralise(text) == text


@every
def test_every_tag_that_a_protocol_writes_or_waits_for_is_neutralised(protocol) -> None:
    written = protocol.search("q", "t") + protocol.fact("f", [1]) + protocol.answer("a", "t", [1])
    for mark in {*protocol.tokens, *protocol.stop, *re.findall(r"</?\w+", written)}:
        assert protocol.neutralise(f"{mark}>").startswith("‹")


@every
def test_a_megabyte_is_read_in_linear_time(protocol) -> None:
    # Each of these makes a careless pattern quadratic: minutes, where this takes a second at most.
    units = ("<", "< ", "<answer>", "<tool_call>", "[", "[1", "[1,", "[1]", " ", "<function=a>", "<parameter=a>")
    texts = ["<" + " " * 1_000_000, *(unit * (1_000_000 // len(unit)) for unit in units)]
    for text in texts:
        protocol.neutralise(text)
        protocol.action(text)
        protocol.answers(text)
        protocol.citations(text)
        protocol.facts(text)
