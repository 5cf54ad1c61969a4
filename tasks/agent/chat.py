"""From words to token ids: the model's chat template around what protocol, tools and users say.

Ids are only ever appended. What the system says is encoded by itself, piece by piece, so that no token reaches
over the border of two writers, and foreign text can hold none of the tokenizer's own marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from typing import Protocol as Interface

from tasks.agent.protocols.base import Observation
from tasks.errors import InputError

# No template says these; they mark where the text of a message begins.
_SAID, _BODY = "\ue000said\ue001", "\ue000body\ue001"
LONGEST_TOKEN = 32  # characters; what is longer than so many a token is cut before it is encoded


class Tokenizer(Interface):
    """The part of a Hugging Face tokenizer that an episode needs."""

    eos_token_id: int
    eos_token: str
    added_tokens_decoder: dict[int, Any]

    def encode(self, text: str, add_special_tokens: bool = ...) -> list[int]: ...
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = ...) -> str: ...
    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any: ...


Message = dict[str, str]


class Chat:
    """A tokenizer's chat template, with the tools' schemas where the protocol gives them to it.

    Args:
        tokenizer: the policy's.
        schemas: the tools as OpenAI's function schemas; empty where the prompt says how to call them.
    """

    def __init__(self, tokenizer: Tokenizer, schemas: Sequence[dict[str, Any]] = ()) -> None:
        self.tokenizer = tokenizer
        self._schemas = list(schemas) or None
        self._frame = lru_cache(maxsize=64)(self._framed)
        self._fixed = lru_cache(maxsize=256)(self._encode)
        added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._marks = sorted((mark for mark in added if len(mark) > 1), key=len, reverse=True)

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

    def observation_ids(self, observation: Observation, limit: int, *, turn_ended: bool) -> list[int]:
        """Token ids of what the system says, shape (n,), n <= `limit` where the parts that are never cut allow it.

        Args:
            observation: what is said.
            limit: tokens in all; the bodies share what the frame leaves, evenly.
            turn_ended: whether the generated turn before it closed with the end token.
        """
        pieces = self._pieces(observation, turn_ended)
        fixed = sum(len(self._fixed(text)) for text, foreign in pieces if not foreign)
        bodies = [self._foreign(text, limit) for text, foreign in pieces if foreign]
        rooms = iter(_shares([len(ids) for ids in bodies], max(0, limit - fixed)))
        cut = iter([ids[:room] for ids, room in zip(bodies, rooms, strict=True)])
        return [token for text, foreign in pieces for token in (next(cut) if foreign else self._fixed(text))]

    def pieces(self, observation: Observation, limit: int, *, turn_ended: bool) -> list[str]:
        """The texts that `observation_ids` encodes one by one, bodies cut as it cuts them."""
        pieces = self._pieces(observation, turn_ended)
        fixed = sum(len(self._fixed(text)) for text, foreign in pieces if not foreign)
        bodies = [self._foreign(text, limit) for text, foreign in pieces if foreign]
        rooms = iter(_shares([len(ids) for ids in bodies], max(0, limit - fixed)))
        cut = iter(
            [
                self.tokenizer.decode(ids[:room], skip_special_tokens=False)
                for ids, room in zip(bodies, rooms, strict=True)
            ]
        )
        return [piece for text, foreign in pieces if (piece := next(cut) if foreign else text)]

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

    def _framed(self, role: str, bodies: int) -> list[str]:
        """What the template writes from the end of the assistant's turn to the opening of its next, around bodies.

        Raises:
            InputError: the template has no such role, or changes what a message says.
        """
        said = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _SAID}]
        try:
            text = self._render([*said, *[{"role": role, "content": _BODY}] * bodies], add_generation_prompt=True)
        except Exception as error:  # whatever a template raises
            raise InputError(
                f"the model's chat template refuses messages of role {role!r}: {error}",
                where="policy.source",
                mend="choose another model, or the protocol search-r1",
            ) from error
        _, found, after = text.partition(_SAID)
        _, ended, frame = after.partition(self.tokenizer.eos_token)
        pieces = frame.split(_BODY)
        if not found or not ended or len(pieces) != bodies + 1:
            raise InputError(
                f"the model's chat template does not show messages of role {role!r} as they are",
                where="policy.source",
                mend="choose another model, or the protocol search-r1",
            )
        return pieces

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _foreign(self, text: str, limit: int) -> list[int]:
        """A foreign text's ids, at most `limit`; none of the tokenizer's marks is left in it."""
        # Half of a surrogate pair, which JSON can carry, is no character and could not be encoded.
        text = text[: LONGEST_TOKEN * limit].encode("utf-8", "replace").decode("utf-8")
        for mark in self._marks:
            text = text.replace(mark, f"{mark[0]}\u200b{mark[1:]}")
        return self._encode(text)[:limit]


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    """Room for each of several texts: evenly, and what a short one leaves goes to the longer ones."""
    shares = [0] * len(lengths)
    waiting = sorted(range(len(lengths)), key=lambda n: lengths[n])
    for done, n in enumerate(waiting):
        shares[n] = min(lengths[n], room // (len(waiting) - done))
        room -= shares[n]
    return shares
