"""Practice text: generated documents on which a policy made from scratch learns to copy a name.

Copying a name never seen before is what a small model needs longest to learn, and nothing in the DAG works
without it. Short documents come first, in which there is little to look at but the name to be copied; then
passages with questions about them. All names are fresh, so no document holds a fact of the world, and none
shows a whole episode: that is left to the demonstrations.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tasks.agent.protocol import SearchR1
from tasks.qa.records import Passage
from tasks.qa.world import SYLLABLES, City, Draft, Entity, Firm, Region, comparison, one_hop, region, two_hop

Text = Literal["repeats", "reading"]
_Writer = Callable[[random.Random, SearchR1], str]


def documents(rng: random.Random, text: Text, protocol: SearchR1 | None = None) -> Iterator[str]:
    """Documents without end.

    Args:
        rng: what is drawn from.
        text: `repeats`: up to 20 words in which names come back; `reading`: up to 60 words, passages as an
            observation shows them, and questions that are answered, or searched for, from what stands above.
        protocol: whose tags are written; Search-R1's by default.
    """
    protocol = protocol or SearchR1()
    writers = TEXTS[text]
    while True:
        yield rng.choices([write for write, _ in writers], [weight for _, weight in writers])[0](rng, protocol)


def _fresh_names(rng: random.Random) -> Iterator[str]:
    """Names drawn for one document, each once."""
    seen: set[str] = set()
    while True:
        name = "".join(rng.choices(SYLLABLES, k=2)).capitalize()
        if name not in seen:
            seen.add(name)
            yield name


def _names(rng: random.Random, least: int, most: int) -> list[str]:
    return list(itertools.islice(_fresh_names(rng), rng.randint(least, most)))


def _sequence(rng: random.Random, protocol: SearchR1) -> str:
    """A few names, said in the same order two to four times."""
    line = "".join(f" {name}" for name in _names(rng, 2, 4))
    return f"{line}." * rng.randint(2, 4)


def _ask(rng: random.Random, protocol: SearchR1) -> str:
    """A question, and the search for the name in it."""
    name, other = _names(rng, 2, 2)
    asked = rng.choice(
        [
            f"Where was {name} born?",
            f"Who employs {name}?",
            f"Which country was {name} born in?",
            f"Which city is the employer of {name} based in?",
            f"Were {name} and {other} born in the same city?",
        ]
    )
    return _question(asked, protocol.search(name))


def _mentions(rng: random.Random, protocol: SearchR1) -> str:
    """Two or three names in the forms in which an episode mentions one, without sense."""
    names = _names(rng, 2, 3)
    forms: list[Callable[[str], str]] = [
        lambda name: f" Where was {name} born?",
        lambda name: f" Who employs {name}?",
        lambda name: f" {name} is a city.",
        lambda name: f" Question: {name} works.",
        protocol.search,
        protocol.answer,
    ]
    return "".join(rng.choice(forms)(rng.choice(names)) for _ in range(rng.randint(5, 8)))


def _question(text: str, turn: str) -> str:
    return f" Question: {text}\n{turn}\n"


def _fresh_region(rng: random.Random, people: int) -> Region:
    names = _fresh_names(rng)

    def entity(text: str) -> tuple[str, Passage]:
        name = next(names)
        return name, Passage(name, name, text.replace("{}", name))

    return region(rng, people, (4, 4, 2), entity)


def _observation(protocol: SearchR1, shown: Sequence[Entity]) -> str:
    return "".join(protocol.observation([entity.passage for entity in shown])).strip() + "\n"


def _people(rng: random.Random, protocol: SearchR1, people: int, places: int, questions: int) -> str:
    """Passages of people, some places among them, and questions; what isn't shown is searched for."""
    made = _fresh_region(rng, people)
    shown = [*made.people, *rng.sample([*made.cities, *made.firms], places)]
    rng.shuffle(shown)
    titles = {entity.name for entity in shown}
    drafts: list[Draft] = [draft for person in made.people for draft in (*one_hop(person), *two_hop(person))]
    drafts += [comparison(*pair) for pair in itertools.combinations(made.people, 2)]
    lines = []
    for text, answer, chain in rng.sample(drafts, questions):
        missing = [entity.name for entity in chain if entity.name not in titles]
        lines.append(_question(text, protocol.search(missing[0]) if missing else protocol.answer(answer)))
    return _observation(protocol, shown) + "".join(lines)


def _person(rng: random.Random, protocol: SearchR1) -> str:
    return _people(rng, protocol, 1, rng.randint(0, 1), rng.randint(1, 2))


def _group(rng: random.Random, protocol: SearchR1) -> str:
    return _people(rng, protocol, rng.randint(1, 3), rng.randint(0, 2), rng.randint(2, 4))


def _places(rng: random.Random, protocol: SearchR1) -> str:
    """Passages of three cities and firms, and two questions where they are."""
    made = _fresh_region(rng, 2)
    places: list[City | Firm] = [*made.cities, *made.firms]
    shown = rng.sample(places, 3)
    lines = [
        _question(
            f"Where is {place.name}?",
            protocol.answer(place.country.name if isinstance(place, City) else place.city.name),
        )
        for place in rng.sample(shown, 2)
    ]
    return _observation(protocol, shown) + "".join(lines)


TEXTS: dict[Text, list[tuple[_Writer, float]]] = {
    "repeats": [(_sequence, 1), (_ask, 1)],
    "reading": [(_person, 2), (_group, 1), (_places, 1), (_mentions, 1), (_ask, 1)],
}
