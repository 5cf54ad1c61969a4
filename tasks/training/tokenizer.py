"""Tokenizer of a policy made from scratch: byte-level BPE that keeps words whole and names in syllables.

Words of a given list are chunks of their own; any other word is split into chunks of consonants and vowels
before BPE learns its merges. No merge crosses a chunk, so a name never seen before is built of the same
tokens as the names seen in training: that is what makes copying it out of a passage learnable by a small model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SYLLABLE = r" ?[A-Za-z]?[b-df-hj-np-tv-z]*[aeiouy]|[b-df-hj-np-tv-z]+| ?\d| ?[^\sA-Za-z\d]|\s+| ?[A-Za-z]+"
END, START, PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def message(role: str, content: str) -> str:
    """A message as the template writes it; a text that is written piece by piece is framed like a chat."""
    return f"{START}{role}\n{content}{END}\n"


def frequent_words(texts: Collection[str], share: float = 0.01) -> list[str]:
    """Words of two letters and more that occur in at least this share of the texts, longest first."""
    found = Counter(word for text in texts for word in set(re.findall(r"[A-Za-z]{2,}", text)))
    return sorted((word for word, n in found.items() if n >= share * len(texts)), key=lambda word: (-len(word), word))


def train_tokenizer(
    texts: Iterable[str], vocabulary: int, tags: Sequence[str], words: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """Train the tokenizer.

    Args:
        texts: what its merges are learnt from.
        vocabulary: largest number of tokens; the 256 bytes and the special tokens count.
        tags: the protocol's tags, one token each.
        words: kept whole, with and without a space before them; one token each where the texts hold them
            often enough.

    Returns:
        a fast tokenizer with ChatML's template; its length is the model's number of embeddings.
    """
    whole = "|".join(re.escape(word) for word in words)
    chunks = f" ?(?:{whole})(?![A-Za-z])|{SYLLABLE}" if words else SYLLABLE
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(chunks), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(tags),
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Not special: they belong to the text and must survive decoding.
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in tags])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
