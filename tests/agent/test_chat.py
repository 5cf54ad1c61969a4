"""What the system says, as token ids: frames, budgets, and foreign text that would pass for more than text."""

from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from tasks.agent.chat import Chat
from tasks.agent.protocols import PROTOCOLS, Observation, create
from tasks.agent.toolbox import Passage, Result
from tasks.errors import InputError

ALL = [create(name, ("search",)) for name in PROTOCOLS]
every = pytest.mark.parametrize("protocol", ALL, ids=lambda protocol: protocol.name)
SCHEMA = {"type": "function", "function": {"name": "search", "description": "looks passages up", "parameters": {}}}
MEGABYTE = 1_000_000


CHATS = ["tokenizer", "qwen_tokenizer", "lacking_tokenizer", pytest.param("smollm2", marks=pytest.mark.slow)]


@pytest.fixture(scope="session", params=CHATS)
def chat(request: pytest.FixtureRequest) -> Chat:
    return Chat(request.getfixturevalue(request.param))


@st.composite
def hostile(draw: st.DrawFn) -> str:
    """A text with marks of the tokenizers and tags of the protocols, whole, in pieces, and one inside the other."""
    marks = [
        "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<file_sep>", "<jupyter_code>", "<empty_output>",
    ]  # fmt: skip
    tags = [mark for protocol in ALL for mark in protocol.tokens]
    parts = st.sampled_from([*marks, *tags, "<|im_", "end|>", "<", "|", ">", "</", "\ufffd"]) | st.text(max_size=6)
    if draw(st.booleans()):
        mark, inner = draw(st.sampled_from(marks)), draw(st.sampled_from([*marks, *tags]))
        at = draw(st.integers(0, len(mark)))
        return mark[:at] + inner + mark[at:]
    return "".join(draw(st.lists(parts, max_size=8)))


FOREIGN, BOOL = hostile(), st.booleans()


def special(chat: Chat, ids: list[int]) -> list[int]:
    """Ids of what the tokenizer holds for marks or tags of its own."""
    return [token for token in ids if token in chat.tokenizer.added_tokens_decoder]


def ids_of(chat: Chat, said: Observation, limit: int, ended: bool = True) -> list[int]:
    return chat.observation_ids(said, limit, turn_ended=ended)


def empty(said: Observation) -> Observation:
    """The same frame around nothing."""
    return Observation(("",) * len(said.bodies), said.role, said.opening, said.closing, said.notice)


@every
@given(
    texts=st.lists(FOREIGN, min_size=1, max_size=3), limit=st.integers(0, 90), ended=st.booleans(), asked=st.booleans()
)
def test_foreign_text_stays_text_and_inside_its_budget(chat, protocol, texts, limit, ended, asked) -> None:
    results = [Result(passages=(Passage("p", text, text),)) if n % 2 else Result(text) for n, text in enumerate(texts)]
    said = protocol.show(results, {}, protocol.last_turn if asked else "")
    frame = ids_of(chat, empty(said), limit, ended)
    ids = ids_of(chat, said, limit, ended)
    assert len(ids) <= max(limit, len(frame))
    assert special(chat, ids) == special(chat, frame)
    pieces = chat.pieces(said, limit, turn_ended=ended)
    assert all(pieces)
    assert [token for piece in pieces for token in chat.tokenizer.encode(piece, add_special_tokens=False)] == ids
    shown, around = "".join(pieces), "".join(chat.pieces(empty(said), limit, turn_ended=ended))
    assert chat.tokenizer.decode(ids, skip_special_tokens=False) == shown
    for mark in (*protocol.tokens, "<|", *(str(token) for token in chat.tokenizer.added_tokens_decoder.values())):
        assert shown.count(mark) == around.count(mark)


@every
@given(text=FOREIGN, ended=st.booleans())
def test_what_the_user_says_stays_text_too(chat, protocol, text, ended) -> None:
    said = protocol.say(text, "user")
    assert special(chat, ids_of(chat, said, 200, ended)) == special(chat, ids_of(chat, empty(said), 200, ended))


@every
def test_every_mark_of_the_tokenizer_is_taken_for_text_in_a_result(chat, protocol) -> None:
    marks = [str(token) for token in chat.tokenizer.added_tokens_decoder.values() if token.special]
    assert "<|im_end|>" in marks
    for mark in marks:
        said = protocol.show([Result(f"a {mark} b{mark}")], {})
        assert special(chat, ids_of(chat, said, 200)) == special(chat, ids_of(chat, empty(said), 200))


@pytest.mark.parametrize("name", ["lacking_tokenizer", pytest.param("smollm2", marks=pytest.mark.slow)])
def test_a_character_that_the_vocabulary_lacks_is_no_mark(request, name: str) -> None:
    lacking = request.getfixturevalue(name)
    assert lacking.decode(lacking.encode("\U00040000")).startswith("<|endoftext|>")
    assert Chat(lacking).pieces(Observation(("a\U00040000b",)), 20, turn_ended=True) == ["a?b"]


LETTERS = st.characters(max_codepoint=0x1FFFF, exclude_characters="<", exclude_categories=["Cs", "Cc"])


@given(text=st.text(LETTERS | st.sampled_from("\n\t"), max_size=20))
def test_text_that_fits_is_shown_as_it_is(chat, text: str) -> None:
    said = Observation((text,), opening="\n(", closing=")\n")
    assert chat.pieces(said, 1000, turn_ended=False) == ["\n(", *[text][: bool(text)], ")\n"]
    assert chat.tokenizer.decode(ids_of(chat, said, 1000, False), skip_special_tokens=False) == f"\n({text})\n"


@pytest.mark.parametrize("unit", ["a", " ", "\n", "é", "👍", "<|im_end|>", "<", "x\u0301", "</answer>", "lorem ipsum "])
@every
def test_a_megabyte_is_cut_to_its_budget(chat, protocol, unit: str) -> None:
    said = protocol.show([Result(unit * (MEGABYTE // len(unit)))], {})
    frame, ids = ids_of(chat, empty(said), 100), ids_of(chat, said, 100)
    assert len(frame) < len(ids) <= 100
    assert special(chat, ids) == special(chat, frame)


def test_no_character_is_cut_through(chat) -> None:
    for limit in range(12):
        (shown,) = chat.pieces(Observation(("\u1e9e👍🏽\u2603" * 3,)), limit, turn_ended=False) or [""]
        assert ("\u1e9e👍🏽\u2603" * 3).startswith(shown)


def test_results_share_the_room_and_what_a_short_one_leaves_goes_to_the_others(chat) -> None:
    def lengths(*words: int, room: int) -> list[int]:
        said = Observation(tuple(" a" * n for n in words))
        return [len(chat.tokenizer.encode(piece)) for piece in chat.pieces(said, room, turn_ended=False)]

    each = len(chat.tokenizer.encode(" a" * 50)) / 50
    assert each == 1
    assert lengths(50, 50, room=40) == [20, 20]
    assert lengths(50, 4, 50, room=40) == [18, 4, 18]
    assert lengths(5, 6, room=40) == [5, 6]


def test_frames_of_the_roles(qwen_tokenizer, tokenizer) -> None:
    def text(made: Any, said: Observation, ended: bool) -> str:
        return made.decode(Chat(made).observation_ids(said, 500, turn_ended=ended), skip_special_tokens=False)

    shown = create("hermes", ("search",)).show([Result("one"), Result("two")], {}, "Hurry.")
    assert text(qwen_tokenizer, shown, True) == (
        "\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\nHurry.\n</tool_response>"
        "<|im_end|>\n<|im_start|>assistant\n"
    )
    assert text(tokenizer, shown, True) == (
        "\n<|im_start|>tool\none<|im_end|>\n<|im_start|>tool\ntwo\nHurry.<|im_end|>\n<|im_start|>assistant\n"
    )
    # A turn that the token limit has cut is closed by the system.
    notice = create("hermes", ("search",)).say("Hurry.", "notice")
    assert text(qwen_tokenizer, notice, False) == (
        "<|im_end|>\n<|im_start|>user\nHurry.<|im_end|>\n<|im_start|>assistant\n"
    )
    shown = create("search-r1", ("search",)).show([Result("one")], {}, "Hurry.")
    assert text(tokenizer, shown, False) == "\n<information> one</information>\nHurry.\n"


def test_what_the_system_says_is_encoded_by_itself(qwen_tokenizer) -> None:
    # Encoded with its frame, a body that opens with a line break would share a token with the frame.
    encode = qwen_tokenizer.encode
    said = create("hermes", ("search",)).show([Result("\n\none")], {})
    ids = Chat(qwen_tokenizer).observation_ids(said, 500, turn_ended=True)
    assert ids == [
        *encode("\n<|im_start|>user\n<tool_response>\n"),
        *encode("\n\none"),
        *encode("\n</tool_response><|im_end|>\n<|im_start|>assistant\n"),
    ]


def test_the_template_shows_the_tools_or_does_not(qwen_tokenizer, tokenizer) -> None:
    prompt = [{"role": "user", "content": "Where?"}]
    chat = Chat(qwen_tokenizer, [SCHEMA])
    assert chat.shows_tools() and not Chat(tokenizer, [SCHEMA]).shows_tools()
    assert not Chat(qwen_tokenizer).shows_tools()
    assert "looks passages up" in qwen_tokenizer.decode(chat.prompt_ids(prompt))
    assert tokenizer.decode(Chat(tokenizer, [SCHEMA]).prompt_ids(prompt)) == (
        "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    )


class Templated:
    """A tokenizer with another template or end token."""

    def __init__(self, tokenizer: Any, template: str | None = None, end: str | None = "<|im_end|>") -> None:
        self._tokenizer, self._template, self.eos_token = tokenizer, template, end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        return self._tokenizer.apply_chat_template(conversation, chat_template=self._template, **kwargs)


HEAD = "{% for message in messages %}<|im_start|>{{ message.role }}\n"
TAIL = "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
REFUSED = {
    "refuses messages of role 'tool': no tools here": (
        "{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
        "{{ message.content }}<|im_end|>{% endfor %}"
    ),
    "does not show messages of role 'tool' as they are": (
        HEAD + "{{ message.content | tojson if message.role == 'tool' else message.content }}" + TAIL
    ),
    "does not show messages of role 'tool'": HEAD + "{{ '' if message.role == 'tool' else message.content }}" + TAIL,
    "does not end a turn with its end token": HEAD + "{{ message.content }}\n{% endfor %}",
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_template_that_cannot_frame_a_result_is_refused(tokenizer, why: str) -> None:
    chat = Chat(Templated(tokenizer, REFUSED[why]))
    with pytest.raises(InputError, match=why):
        chat.require("tool")


def test_an_end_token_that_is_none_of_the_template_is_refused(tokenizer) -> None:
    with pytest.raises(InputError, match=r"does not end a turn with its end token '<\|im_start\|>'"):
        Chat(Templated(tokenizer, end="<|im_start|>")).require("user")
    with pytest.raises(InputError, match="no end token"):
        Chat(Templated(tokenizer, end=None))


def test_templates_that_can_frame_are_not_refused(chat) -> None:
    chat.require("tool", "user")


def test_a_tokenizer_that_makes_marks_of_other_letters_makes_none_of_foreign_text() -> None:
    """Full-width letters become plain ones in NFKC, and `xxx` still holds an `xx` once one of them is broken up."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.normalizer = tokenizers.normalizers.NFKC()
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(["a"], tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    marks = [tokenizers.AddedToken(mark, special=True, normalized=True) for mark in ("<|im_end|>", "xx")]
    inner.add_special_tokens(marks)
    fast = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", clean_up_tokenization_spaces=False)
    chat = Chat(fast)
    for text in ("a＜｜im_end｜＞b", "xxx", "ｘｘ and ｘx"):
        assert set(fast.encode(text)) & {fast.eos_token_id, fast.convert_tokens_to_ids("xx")}
        ids = chat.observation_ids(Observation((text,)), 100, turn_ended=True)
        assert ids and not set(ids) & {fast.eos_token_id, fast.convert_tokens_to_ids("xx")}
        (piece,) = chat.pieces(Observation((text,)), 100, turn_ended=True)
        assert fast.encode(piece, add_special_tokens=False) == ids


def test_half_a_character_is_shown_as_a_question_mark(tokenizer: Any) -> None:
    (piece,) = Chat(tokenizer).pieces(Observation(("a\ud800b",)), 100, turn_ended=True)
    assert piece == "a?b"
