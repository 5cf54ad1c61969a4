"""A generated set for policies made from scratch: which of four orders of the same words is a sentence?

The sentences and questions are those of the language that such a policy is pre-trained on (`tasks/qa/practice.py`),
about names that no question has. The demonstrations and RL show such sentences and never train on them: what they
train are searches and answers. Minimal pairs, scored by log-likelihood, are BLiMP's (Warstadt et al. 2020).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tasks.evaluation.ability.questions import Choices
from tasks.qa import records, world

_CHOICES = 4
_SIZES = (2, 2, 2)  # cities, firms and countries for two people: enough for every kind of sentence
_PEOPLE = 2


def questions(names: Sequence[str], count: int, seed: int) -> list[Choices]:
    """As many questions: a sentence as the context, then another one in its own order and in three others.

    Args:
        names: what the sentences are about; at least 8.
        count: number of questions.
        seed: of everything drawn.
    """
    rng = random.Random(f"{seed}:ability")
    return [_question(rng, names, number) for number in range(count)]


def _question(rng: random.Random, names: Sequence[str], number: int) -> Choices:
    said = rng.sample(names, _PEOPLE + sum(_SIZES))
    context, sentence = rng.sample(list(_sentences(rng, said)), 2)
    words, end = sentence[:-1].split(), sentence[-1]
    orders = [words]
    while len(orders) < _CHOICES:
        other = rng.sample(words, len(words))
        # Two names exchanged would be a sentence as well.
        if all(_without(other, said) != _without(order, said) for order in orders):
            orders.append(other)
    rng.shuffle(orders)
    choices = tuple(" ".join(order) + end for order in orders)
    return Choices(context, choices, orders.index(words), f"generated question {number}")


def _without(words: Sequence[str], names: Sequence[str]) -> list[str]:
    return ["" if word in names else word for word in words]


def _sentences(rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    """Sentences of the passages of a small region, and the questions about its people; of four words and more."""
    free = iter(names)

    def entity(text: str) -> tuple[str, records.Passage]:
        name = next(free)
        return name, records.Passage(name, name, text.replace("{}", name))

    made = world.region(rng, _PEOPLE, _SIZES, entity)
    for passage in made.passages:
        yield from (f"{one.removesuffix('.')}." for one in passage.text.split(". "))
    for person in made.people:
        yield from (text for text, _, _ in (*world.one_hop(person), *world.two_hop(person)))
    yield world.comparison(*made.people)[0]
