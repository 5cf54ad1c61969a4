"""What two texts of one question have in common, however they are written.

SQuAD's normalisation, by which answers are scored, knows the punctuation of ASCII alone: two copies of a question
with straight and with curly quotes would be two questions to it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

_ARTICLES = frozenset(("a", "an", "the"))
_JOINING = "'’‘ʼ`´."  # "wife's" and "wifes", "U.S." and "US" are one word
_DELETED = {ord(character): None for character in _JOINING}
_ASCII = {code: " " for code in range(128) if not chr(code).isalnum()} | _DELETED
_PUNCTUATION = re.compile(r"[^\w\s]|_")


def comparable(text: str) -> str:
    """Words of a text: lower case, without accents, punctuation of any script and English articles."""
    if text.isascii():
        plain = text.lower().translate(_ASCII)
    else:
        parts = unicodedata.normalize("NFKD", text.translate(_DELETED))
        letters = "".join(character for character in parts if not unicodedata.combining(character))
        plain = _PUNCTUATION.sub(" ", letters.casefold().translate(_DELETED))
    return " ".join(word for word in plain.split() if word not in _ARTICLES)


def question_key(text: str) -> bytes:
    """16 bytes that are equal for texts that differ in nothing but what `comparable` leaves out, and in spaces.

    A text of which nothing is left ("?", "The") is compared as it stands.
    """
    joined = comparable(text).replace(" ", "")
    return hashlib.blake2b((joined or f"\0{text}").encode(), digest_size=16).digest()
