"""A generated world: people, cities, firms and countries, their passages, and questions about them.

Decided, and why:
- Names are built from 80 syllables of a consonant and a vowel, so an unseen name is built of seen tokens.
- Each split has people, cities, firms and countries of its own, so an answer can only come from reading.
- All names have equally many letters: none is the beginning of another, and held-out names are as hard as others.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.errors import InputError
from tasks.qa.records import SPLITS, Passage, Question, Split

SYLLABLES: tuple[str, ...] = tuple(consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou")
Kind = Literal["one-hop", "two-hop", "comparison"]
# One city, one firm and a quarter of a country for this many people: few enough that people share a
# birthplace (comparisons need that), many enough that no place is a good guess.
PEOPLE_PER_CITY = 4
CITIES_PER_COUNTRY = 4
# Names that a world leaves free: practice text is about these, so that no name of the world is ever practised.
SPARE = 2000
CAPACITY = len(SYLLABLES) ** 3 - SPARE


@dataclass(frozen=True)
class Entity:
    """A named thing and its passage."""

    name: str
    passage: Passage


@dataclass(frozen=True)
class City(Entity):
    """A city and its country."""

    country: Entity


@dataclass(frozen=True)
class Firm(Entity):
    """A firm and the city it is based in."""

    city: City


@dataclass(frozen=True)
class Person(Entity):
    """A person, where they were born and whom they work for."""

    birthplace: City
    employer: Firm


@dataclass(frozen=True)
class Region:
    """The part of the world that one split is about."""

    people: list[Person]
    cities: list[City]
    firms: list[Firm]
    countries: list[Entity]

    @property
    def passages(self) -> list[Passage]:
        """One for each entity."""
        return [entity.passage for entity in (*self.people, *self.cities, *self.firms, *self.countries)]


@dataclass(frozen=True)
class World:
    """Passages of all splits, and each split's questions."""

    passages: list[Passage]
    questions: dict[Split, list[Question]]


# A question before it has an id: text, answer, and the entities whose passages answer it, in order.
Draft = tuple[str, str, Sequence[Entity]]


def one_hop(person: Person) -> Iterator[Draft]:
    yield f"Where was {person.name} born?", person.birthplace.name, (person,)
    yield f"Who employs {person.name}?", person.employer.name, (person,)


def two_hop(person: Person) -> Iterator[Draft]:
    born, employer = person.birthplace, person.employer
    yield f"Which country was {person.name} born in?", born.country.name, (person, born)
    yield f"Which city is the employer of {person.name} based in?", employer.city.name, (person, employer)


def comparison(one: Person, other: Person) -> Draft:
    same = one.birthplace is other.birthplace
    return f"Were {one.name} and {other.name} born in the same city?", "yes" if same else "no", (one, other)


def names(syllables: int) -> list[str]:
    """Every name of so many syllables, in one order."""
    words = {"same"}  # of the questions
    built = ("".join(parts) for parts in itertools.product(SYLLABLES, repeat=syllables))
    return [name.capitalize() for name in built if name not in words]


def _draw_names(rng: random.Random, count: int) -> list[str]:
    """Unique names, all of two syllables, or all of three where two would leave fewer than `SPARE`."""
    if count > CAPACITY:
        raise InputError(
            f"the world would need {count} names, and its syllables give {CAPACITY}",
            where="ingest.sources, reader world",
            mend="ask for fewer people",
        )
    short = names(2)
    return rng.sample(short if count + SPARE <= len(short) else names(3), count)


def _sizes(people: int) -> tuple[int, int, int]:
    """Numbers of cities, firms and countries for a number of people; at least two each, so that answers differ."""
    cities = max(2, people // PEOPLE_PER_CITY)
    return cities, cities, max(2, cities // CITIES_PER_COUNTRY)


def region(
    rng: random.Random, people: int, sizes: tuple[int, int, int], entity: Callable[[str], tuple[str, Passage]]
) -> Region:
    """People, and cities, firms and countries of these `sizes`.

    `entity` turns a text with `{}` for the name into the next name and its passage.
    """
    n_cities, n_firms, n_countries = sizes
    countries = [Entity(*entity("{} is a country.")) for _ in range(n_countries)]
    cities = []
    for _ in range(n_cities):
        country = rng.choice(countries)
        cities.append(City(*entity(f"{{}} is a city in {country.name}."), country))
    firms = []
    for _ in range(n_firms):
        city = rng.choice(cities)
        firms.append(Firm(*entity(f"{{}} is a firm based in {city.name}."), city))
    born_and_employed = []
    for _ in range(people):
        city, firm = rng.choice(cities), rng.choice(firms)
        text = f"{{}} was born in {city.name}. {{}} works for {firm.name}."
        born_and_employed.append(Person(*entity(text), city, firm))
    return Region(born_and_employed, cities, firms, countries)


def _comparisons(rng: random.Random, people: Sequence[Person], count: int) -> list[Draft]:
    """`count` comparisons of different pairs, half of them (rounded down) with the answer yes."""
    same = [(one, other) for one, other in itertools.combinations(people, 2) if one.birthplace is other.birthplace]
    n_same = count // 2
    n_pairs = len(people) * (len(people) - 1) // 2
    if n_same > len(same) or count - n_same > n_pairs - len(same):
        raise _too_many("comparison", count, 2 * min(len(same), n_pairs - len(same)))
    different: dict[tuple[str, str], tuple[Person, Person]] = {}
    while len(different) < count - n_same:
        one, other = rng.sample(people, 2)
        key = (min(one.name, other.name), max(one.name, other.name))
        if one.birthplace is not other.birthplace and key not in different:
            different[key] = (one, other)
    pairs = [*rng.sample(same, n_same), *different.values()]
    rng.shuffle(pairs)
    return [comparison(*pair) for pair in pairs]


def _too_many(kind: Kind, asked: int, most: int) -> InputError:
    return InputError(
        f"{asked} {kind} questions are asked for, and the people of that split give at most {most}",
        where="ingest.sources, reader world",
        mend="ask for more people or fewer questions",
    )


def apportion(total: int, shares: Mapping[Kind, float]) -> dict[Kind, int]:
    """Split a total by shares that sum to 1, by largest remainder: the parts sum to the total exactly.

    Raises:
        InputError: the shares don't sum to 1.
    """
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise InputError(
            f"the shares sum to {sum(shares.values()):g}, not to 1", where="ingest.sources, reader world, kinds"
        )
    parts = {name: int(total * share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: parts[name] - total * shares[name])
    for name in by_remainder[: total - sum(parts.values())]:
        parts[name] += 1
    return parts


def generate(
    seed: int, people: Mapping[Split, int], questions: Mapping[Split, int], kinds: Mapping[Kind, float]
) -> World:
    """Generate a world; equal arguments give equal worlds.

    Args:
        seed: of everything that is drawn.
        people: number of people in each split; cities, firms and countries grow with it.
        questions: number of questions in each split.
        kinds: share of each kind of question; they sum to 1.

    Returns:
        the world; a split's questions stand in blocks by kind.

    Raises:
        InputError: more names or questions are asked for than there can be.
    """
    rng = random.Random(f"{seed}:world")
    needed = sum(count + sum(_sizes(count)) for count in people.values())
    free = iter(_draw_names(rng, needed))
    numbers = itertools.count()

    def entity(text: str) -> tuple[str, Passage]:
        name = next(free)
        return name, Passage(f"world-{next(numbers)}", name, text.replace("{}", name))

    passages: list[Passage] = []
    asked: dict[Split, list[Question]] = {}
    for split in SPLITS:
        part = region(rng, people[split], _sizes(people[split]), entity)
        passages += part.passages
        asked[split] = []
        for kind, count in apportion(questions[split], kinds).items():
            for number, draft in enumerate(_drafts(rng, part.people, kind, count)):
                asked[split].append(_question(draft, kind, f"world-{split}-{kind}-{number}"))
    rng.shuffle(passages)
    return World(passages, asked)


def _drafts(rng: random.Random, people: Sequence[Person], kind: Kind, count: int) -> list[Draft]:
    if kind == "comparison":
        return _comparisons(rng, people, count)
    forms = one_hop if kind == "one-hop" else two_hop
    drafts = [draft for person in people for draft in forms(person)]
    if count > len(drafts):
        raise _too_many(kind, count, len(drafts))
    return rng.sample(drafts, count)


def _question(draft: Draft, kind: Kind, identity: str) -> Question:
    text, answer, chain = draft
    return Question(
        id=identity,
        data_source=f"world-{kind}",
        question=text,
        golden_answers=(answer,),
        hops=1 if kind == "one-hop" else 2,
        supporting_titles=tuple(entity.name for entity in chain),
        gold_passage_ids=tuple(entity.passage.id for entity in chain),
        origin=identity,
        type=kind,
    )
