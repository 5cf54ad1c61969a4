"""From words to token ids: the model's chat template around what protocol, tools and users say.

Ids are only ever appended. What the system says is encoded by itself, piece by piece, so that no token reaches
over the border of two writers, and foreign text can hold none of the tokenizer's own marks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal
from typing import Protocol as Interface

from tasks.agent.fitting import shares
from tasks.agent.protocols.base import Observation
from tasks.errors import InputError

# No template says these; they mark where the text of a message begins. Quotes and line breaks show a template that
# would escape what a message says.
_SAID, _BODY = "\ue000said\ue001", '\ue000"body"\n.\ue001'
LONGEST_TOKEN = 32  # characters; what is longer than so many a token is cut before it is encoded
_CUT_THROUGH = re.compile(r"<[\s/]*[^\s<>]*\Z")  # a word's beginning could pass for a tag
_MEND = "choose another model, or the protocol search-r1"


class Tokenizer(Interface):
    """The part of a Hugging Face tokenizer that an episode needs."""

    eos_token_id: int
    eos_token: str
    added_tokens_decoder: dict[int, Any]

    def encode(self, text: str, add_special_tokens: bool = ...) -> list[int]: ...
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = ...) -> str: ...
    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any: ...


Message = dict[str, str]
Role = Literal["tool", "user"]


class Chat:
    """A tokenizer's chat template, with the tools' schemas where the protocol gives them to it.

    Args:
        tokenizer: the policy's.
        schemas: the tools as OpenAI's function schemas; empty where the prompt says how to call them.

    Raises:
        InputError: the tokenizer has no end token.
    """

    def __init__(self, tokenizer: Tokenizer, schemas: Sequence[dict[str, Any]] = ()) -> None:
        if not tokenizer.eos_token:
            raise InputError(
                "the model's tokenizer has no end token", where="policy.source", mend="choose another model"
            )
        self.tokenizer = tokenizer
        self._schemas = list(schemas) or None
        self._frame = lru_cache(maxsize=64)(self._framed)
        self._fixed = lru_cache(maxsize=256)(self._encode)
        self.foreign = lru_cache(maxsize=32)(self._foreign)
        self._special = {token for token, kept in tokenizer.added_tokens_decoder.items() if kept.special}
        added = {str(token): token.special for token in tokenizer.added_tokens_decoder.values()}
        # Tags that are no special tokens, such as Qwen's <tool_call>, are marks too; words in a vocabulary are not.
        marks = [mark for mark, special in added.items() if len(mark) > 1 and (special or mark.startswith("<"))]
        self._marks = sorted(marks, key=len, reverse=True)

    def prompt_ids(self, prompt: Sequence[Message]) -> list[int]:
        """Token ids of a chat prompt with the opening of the assistant's turn, shape (n,)."""
        return list(
            self.tokenizer.apply_chat_template(
                list(prompt), tools=self._schemas, add_generation_prompt=True, tokenize=True, return_dict=False
            )
        )

    def shows_tools(self) -> bool:
        """Whether the template writes the schemas into the prompt."""
        ask = [{"role": "user", "content": _SAID}]
        return bool(self._render(ask) != self._render(ask, tools=self._schemas))

    def require(self, *roles: Role) -> None:
        """Make sure that messages of these roles can be said.

        Raises:
            InputError: the template has no such role, changes what a message says, or ends a turn with something
                else than the tokenizer's end token.
        """
        for role in roles:
            self._frame(role, 1)

    def observation_ids(self, observation: Observation, limit: int, *, turn_ended: bool) -> list[int]:
        """Token ids of what the system says, shape (n,), n <= `limit` where the parts that are never cut allow it.

        Args:
            observation: what is said.
            limit: tokens in all; the bodies share what the frame leaves, evenly.
            turn_ended: whether the generated turn before it closed with the end token.
        """
        return [token for _, ids in self._said(observation, limit, turn_ended) for token in ids]

    def length(self, observation: Observation, limit: int, *, turn_ended: bool) -> int:
        """How many tokens it would take if nothing were cut; right up to `limit`."""
        return sum(len(ids) for _, ids, _ in self._coded(observation, limit, turn_ended))

    def pieces(self, observation: Observation, limit: int, *, turn_ended: bool) -> list[str]:
        """The texts whose token ids, each encoded by itself, are `observation_ids`."""
        return [text for text, _ in self._said(observation, limit, turn_ended)]

    def _said(self, observation: Observation, limit: int, turn_ended: bool) -> list[tuple[str, list[int]]]:
        """Text by text with its token ids, bodies cut."""
        coded = self._coded(observation, limit, turn_ended)
        bodies = [len(ids) for _, ids, foreign in coded if foreign]
        fixed = sum(len(ids) for _, ids, _ in coded) - sum(bodies)
        rooms = iter(shares(bodies, max(0, limit - fixed)))
        cut = [self._cut(text, ids, next(rooms)) if foreign else (text, ids) for text, ids, foreign in coded]
        return [(text, ids) for text, ids in cut if ids]

    def _coded(self, observation: Observation, limit: int, turn_ended: bool) -> list[tuple[str, list[int], bool]]:
        """Text by text with its token ids and whether it is foreign; hardly more of a body than `limit` ids."""
        return [
            (*(self.foreign(text, limit) if foreign else (text, self._fixed(text))), foreign)
            for text, foreign in self._pieces(observation, turn_ended)
        ]

    def _pieces(self, observation: Observation, turn_ended: bool) -> list[tuple[str, bool]]:
        """Text by text, with whether it is foreign and may be cut."""
        if observation.role is None:
            opening, closing = observation.opening, observation.closing + observation.notice
            pieces = [(opening, False), *((body, True) for body in observation.bodies), (closing, False)]
        else:
            first, *between, last = self._frame(observation.role, len(observation.bodies))
            after = [*between, f"{observation.notice}{last}"]
            pieces = [(first if turn_ended else self.tokenizer.eos_token + first, False)]
            for body, rest in zip(observation.bodies, after, strict=True):
                pieces += [(body, True), (rest, False)]
        return [(text, foreign) for text, foreign in pieces if text]

    def _render(self, messages: Sequence[Message], **kwargs: Any) -> str:
        return str(self.tokenizer.apply_chat_template(list(messages), tokenize=False, **kwargs))

    def _framed(self, role: Role, bodies: int) -> list[str]:
        """What the template writes from the end of the assistant's turn to the opening of its next, around bodies.

        Raises:
            InputError: see `require`.
        """
        said = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _SAID}]
        try:
            text = self._render([*said, *[{"role": role, "content": _BODY}] * bodies], add_generation_prompt=True)
        except Exception as error:  # whatever a template raises
            raise InputError(
                f"the model's chat template refuses messages of role {role!r}: {error}",
                where="policy.source",
                mend=_MEND,
            ) from error
        _, found, after = text.partition(_SAID)
        between, ended, frame = after.partition(self.tokenizer.eos_token)
        if not found or not ended or between.strip():
            raise InputError(
                f"the model's chat template does not end a turn with its end token {self.tokenizer.eos_token!r}",
                where="policy.source",
                mend=_MEND,
            )
        pieces = frame.split(_BODY)
        if len(pieces) != bodies + 1:
            raise InputError(
                f"the model's chat template does not show messages of role {role!r} as they are",
                where="policy.source",
                mend=_MEND,
            )
        return pieces

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _foreign(self, text: str, limit: int) -> tuple[str, list[int]]:
        """A foreign text, none of the tokenizer's marks left in it, and its ids; hardly more of it than `limit` ids."""
        # Half of a surrogate pair, which JSON can carry, is no character and could not be encoded.
        text = text[: LONGEST_TOKEN * limit].encode("utf-8", "replace").decode("utf-8")
        for mark in self._marks:
            text = text.replace(mark, f"{mark[0]}\u200b{mark[1:]}")
        ids = self._encode(text)
        if not self._special.isdisjoint(ids):
            # Characters that the vocabulary lacks may have a mark's id: SmolLM2's has <|endoftext|> for all of them.
            lacking = {letter for letter in set(text) if not self._special.isdisjoint(self._encode(letter))}
            text = text.translate({ord(letter): "?" for letter in lacking})
            ids = self._encode(text)
        if not self._special.isdisjoint(ids):
            # The tokenizer makes marks of what is none, out of full-width letters, say: no two may stand together.
            text = "\u200b".join(text)
            ids = [token for token in self._encode(text) if token not in self._special]
            text = self.tokenizer.decode(ids, skip_special_tokens=False)
        return text, ids

    def _cut(self, text: str, ids: list[int], room: int) -> tuple[str, list[int]]:
        """A text cut to at most `room` ids, and the ids that the cut text has: often, not always, the first ones."""
        kept = room
        while len(ids) > room:
            # A character that is cut through decodes to U+FFFD.
            text = self.tokenizer.decode(ids[:kept], skip_special_tokens=False).rstrip("\ufffd")
            text = _CUT_THROUGH.sub("", text)
            cut = self._encode(text)
            if len(cut) <= room:
                return text, cut
            kept -= 1
        return text, ids
