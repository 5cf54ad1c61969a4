"""What tools bring, cut to a token budget: all passages have room, and each ends with a sentence where it can.

The room is shared evenly. What a short text leaves goes to the longer ones, and what a cut at a sentence's end leaves
to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tasks.agent.toolbox.base import Result

if TYPE_CHECKING:
    from tasks.agent.chat import Chat
    from tasks.agent.protocols import Observation, Protocol

# A sentence ends with a line, with a mark of Chinese or Japanese, or with a mark that is followed by nothing, or by
# blanks and something else than a small letter, unless that mark is an abbreviation's dot. A run of marks is read once:
# hostile text is full of them.
_END = re.compile(
    r"\n|[\u3002\uff01\uff1f]+[\u201d\u2019\u300d\u300f\uff09]*"
    r"|(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019\u00bb)\]]*+(?=\s*+\Z|\s++[\"'\u201c\u2018\u00ab(\[]*+[^\Wa-z_])"
)
# A single letter is an initial (J. Smith), or the end of one (U.S., p.m.).
_ABBREVIATION = re.compile(
    r"(?:^|[^\w])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Mt|Ft|Rev|Hon|Gov|Sen|Rep|Gen|Col|Maj|Capt|Lt|Sgt|Jr|Sr|Inc|Ltd|Co"
    r"|Corp|Bros|No|Nos|Vol|vol|Fig|fig|pp|vs|ca|approx|al|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\.\Z"
)
_LONG = 5  # characters a token: where there are more, nobody need count the tokens to know that they are too many
SHORTEST = 8  # tokens: of a passage's text, or it says too little to be shown
_LOOK_BACK = 8  # characters: the longest abbreviation, its dot and what stands before it


def shown(
    results: Sequence[Result],
    numbers: dict[str, int],
    notice: str,
    *,
    protocol: Protocol,
    chat: Chat,
    limit: int,
    turn_ended: bool,
) -> Observation:
    """What the results of one turn's calls look like inside a budget.

    Args:
        results: one a call.
        numbers: as for `Protocol.show`; extended.
        notice: the system's own words after them.
        protocol: shows the results.
        chat: says how many tokens that takes.
        limit: tokens in all, frame, labels and titles included.
        turn_ended: whether the generated turn before it closed with the end token.

    Returns:
        the whole of it where that fits. Otherwise each text is cut to its share, and so is a title that takes more than
        half of an even share; the last passages are left out where not all would have `SHORTEST` tokens. What frame
        and labels alone exceed is left to `Chat` to cut. It names the passages that it holds.
    """
    tried = dict(numbers)
    whole = protocol.show(results, tried, notice)
    likely = sum(map(len, whole.bodies)) <= _LONG * limit
    if likely and chat.length(whole, limit, turn_ended=turn_ended) <= limit:
        numbers.update(tried)
        return _holding(whole, results)
    while True:
        texts = len(list(_texts(results)))
        named = _named(results, limit // (2 * max(1, texts)), chat)
        frame = protocol.show(_with(named, [""] * texts), dict(numbers), notice)
        room = max(0, limit - chat.length(frame, limit, turn_ended=turn_ended))
        fewer = _without_last(results) if room < SHORTEST * texts else results
        if fewer == results:
            break
        results = fewer
    # A text is cut as it is shown: neutralised. Showing it neutralises it again, which changes nothing but a tag that
    # the cut has made out of a longer word.
    cut = fit([protocol.neutralise(text) for text in _texts(results)], room, chat)
    kept = _with(named, cut)
    return _holding(protocol.show(kept, numbers, notice), kept)


def fit(texts: Sequence[str], room: int, chat: Chat) -> list[str]:
    """Beginnings of texts that have at most `room` tokens together, each encoded by itself.

    None is empty where an even share holds a character of it.
    """
    coded = [chat.foreign(text, room) for text in texts]
    rooms = shares([len(ids) for _, ids in coded], room)
    spare, fitted = room - sum(rooms), []
    for (text, ids), share in zip(coded, rooms, strict=True):
        piece, used = _cut(text, ids, share + spare, chat)
        spare += share - used
        fitted.append(piece)
    return fitted


def shares(lengths: Sequence[int], room: int) -> list[int]:
    """Room for each of several texts: evenly, and what a short one leaves goes to the longer ones."""
    shares = [0] * len(lengths)
    waiting = sorted(range(len(lengths)), key=lambda n: lengths[n])
    for done, n in enumerate(waiting):
        shares[n] = min(lengths[n], room // (len(waiting) - done))
        room -= shares[n]
    return shares


def end_before(text: str, end: int) -> int:
    """Where to cut a text that may have `end` characters: at the end of a sentence, else of a word, else there."""
    last, begin = 0, len(text) - len(text.lstrip())
    for found in _END.finditer(text):
        at = found.start() if found[0] == "\n" else found.end()
        if at > end:
            break
        before = text[max(0, found.start() - _LOOK_BACK) : found.start() + 1]
        if at > begin and not (found[0] == "." and _ABBREVIATION.search(before)):
            last = at
    if last:
        return last
    head = text[:end]
    if text[end : end + 1].isspace():
        return len(head.rstrip())
    words = head.rsplit(None, 1)
    return len(words[0]) if len(words) == 2 else end


def _cut(text: str, ids: list[int], room: int, chat: Chat) -> tuple[str, int]:
    """A text's beginning of at most `room` ids, and how many it has."""
    kept = room
    if len(ids) <= room:
        return text, len(ids)
    while kept > 0:
        # A character that is cut through decodes to U+FFFD.
        reached = chat.tokenizer.decode(ids[:kept], skip_special_tokens=False).rstrip("\ufffd")
        # Not every tokenizer gives back what it was given; then the share of the tokens is that of the characters.
        end = len(reached) if text.startswith(reached) else len(text) * kept // len(ids)
        piece = text[: end_before(text, end)]
        used = len(chat.foreign(piece, room)[1])
        if used <= room:
            return piece, used
        kept = min(kept - 1, kept * room // used)
    return "", 0


def _holding(observation: Observation, results: Sequence[Result]) -> Observation:
    """The observation with the ids of the passages that it holds; one of which no word is left is none."""
    held = (passage.id for result in results for passage in result.passages if passage.text)
    return replace(observation, passage_ids=tuple(dict.fromkeys(held)))


def _named(results: Sequence[Result], most: int, chat: Chat) -> list[Result]:
    """The results with titles of at most `most` tokens each."""
    return [
        replace(result, passages=tuple(replace(one, title=_title(one.title, most, chat)) for one in result.passages))
        for result in results
    ]


def _title(title: str, most: int, chat: Chat) -> str:
    if len(title.encode("utf-8", "replace")) <= most:  # hardly any tokenizer makes more tokens than there are bytes
        return title
    return _cut(*chat.foreign(title, most), most, chat)[0]


def _without_last(results: Sequence[Result]) -> Sequence[Result]:
    """The results without the last passages of those that have most of them; each keeps one that has any."""
    most = max(len(result.passages) for result in results)
    if most <= 1:
        return results
    return [
        replace(result, passages=result.passages[: -max(1, most // 8)]) if len(result.passages) == most else result
        for result in results
    ]


def _texts(results: Sequence[Result]) -> Iterator[str]:
    """The texts of results that may be cut, in order."""
    for result in results:
        if result.passages:
            yield from (passage.text for passage in result.passages)
        else:
            yield result.text


def _with(results: Sequence[Result], texts: Sequence[str]) -> list[Result]:
    """The results with other texts, which are as many as `_texts` names."""
    rest = iter(texts)
    return [
        replace(result, passages=tuple(replace(passage, text=next(rest)) for passage in result.passages))
        if result.passages
        else replace(result, text=next(rest))
        for result in results
    ]
