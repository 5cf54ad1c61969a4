"""A generated world: people, cities, firms and countries, their passages, and questions about them.

Decided, and why:
- Names are built from 40 syllables of consonants and one vowel, so an unseen name is built of seen tokens.
- Each split has people, cities, firms and countries of its own, so an answer can only come from reading.
- No name is the beginning of another: a search for one entity can't match another's name.
- Names of two and of three syllables are dealt to all splits alike, so held-out names are no longer than others.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.agent.protocol import SearchR1
from tasks.errors import InputError
from tasks.qa.records import SPLITS, Passage, Question, Split

# fmt: off
SYLLABLES: tuple[str, ...] = (
    "ka", "ro", "li", "ve", "mo", "ta", "shi", "be", "du", "ne", "pa", "gri", "zo", "fe", "lu", "ma", "ti", "so", "ra",
    "vi", "de", "hu", "ba", "lo", "sa", "wi", "jo", "pe", "nu", "ca", "dri", "gu", "go", "ha", "ke", "pu", "ku", "fa",
    "bri", "su",
)
# fmt: on
Kind = Literal["one-hop", "two-hop", "comparison"]
# One city, one firm and a quarter of a country for this many people: few enough that people share a
# birthplace (comparisons need that), many enough that no place is a good guess.
PEOPLE_PER_CITY = 4
CITIES_PER_COUNTRY = 4
_PAIRS = len(SYLLABLES) ** 2
CAPACITY = _PAIRS // 2 + (_PAIRS - _PAIRS // 2) * len(SYLLABLES)


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
_Draft = tuple[str, str, Sequence[Entity]]


def _one_hop(person: Person) -> Iterator[_Draft]:
    yield f"Where was {person.name} born?", person.birthplace.name, (person,)
    yield f"Who employs {person.name}?", person.employer.name, (person,)


def _two_hop(person: Person) -> Iterator[_Draft]:
    born, employer = person.birthplace, person.employer
    yield f"Which country was {person.name} born in?", born.country.name, (person, born)
    yield f"Which city is the employer of {person.name} based in?", employer.city.name, (person, employer)


def _comparison(one: Person, other: Person) -> _Draft:
    same = one.birthplace is other.birthplace
    return f"Were {one.name} and {other.name} born in the same city?", "yes" if same else "no", (one, other)


def _names(rng: random.Random, count: int) -> list[str]:
    """Unique names, none the beginning of another; half of two syllables while these last, the rest of three."""
    if count > CAPACITY:
        raise InputError(
            f"the world would need {count} names, and its syllables give {CAPACITY}",
            where="ingest.sources, reader world",
            mend="ask for fewer people",
        )
    pairs = ["".join(pair) for pair in itertools.product(SYLLABLES, repeat=2)]
    rng.shuffle(pairs)
    # A pair is either a name or the beginning of names, never both.
    short, stems = pairs[: _PAIRS // 2], pairs[_PAIRS // 2 :]
    short = short[: count // 2]
    long = rng.sample([stem + syllable for stem in stems for syllable in SYLLABLES], min(count, CAPACITY) - len(short))
    names = [name.capitalize() for name in (*short, *long)]
    rng.shuffle(names)
    return names


def _sizes(people: int) -> tuple[int, int, int]:
    """Numbers of cities, firms and countries for a number of people; at least two each, so that answers differ."""
    cities = max(2, people // PEOPLE_PER_CITY)
    return cities, cities, max(2, cities // CITIES_PER_COUNTRY)


def _region(
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


def _comparisons(rng: random.Random, people: Sequence[Person], count: int) -> list[_Draft]:
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
    return [_comparison(*pair) for pair in pairs]


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
    names = iter(_names(rng, needed))
    numbers = itertools.count()

    def entity(text: str) -> tuple[str, Passage]:
        name = next(names)
        return name, Passage(f"world-{next(numbers)}", name, text.replace("{}", name))

    passages: list[Passage] = []
    asked: dict[Split, list[Question]] = {}
    for split in SPLITS:
        region = _region(rng, people[split], _sizes(people[split]), entity)
        passages += region.passages
        asked[split] = []
        for kind, count in apportion(questions[split], kinds).items():
            for number, draft in enumerate(_drafts(rng, region.people, kind, count)):
                asked[split].append(_question(draft, kind, f"world-{split}-{kind}-{number}"))
    rng.shuffle(passages)
    return World(passages, asked)


def _drafts(rng: random.Random, people: Sequence[Person], kind: Kind, count: int) -> list[_Draft]:
    if kind == "comparison":
        return _comparisons(rng, people, count)
    forms = _one_hop if kind == "one-hop" else _two_hop
    drafts = [draft for person in people for draft in forms(person)]
    if count > len(drafts):
        raise _too_many(kind, count, len(drafts))
    return rng.sample(drafts, count)


def _question(draft: _Draft, kind: Kind, identity: str) -> Question:
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
    )


def _fresh_names(rng: random.Random) -> Iterator[str]:
    """Names drawn for one document, each once."""
    seen: set[str] = set()
    while True:
        name = "".join(rng.choices(SYLLABLES, k=rng.choice((2, 3)))).capitalize()
        if name not in seen:
            seen.add(name)
            yield name


def practice_text(rng: random.Random, count: int, protocol: SearchR1 | None = None) -> list[str]:
    """Documents on which copying a name can be practised before anything is asked of the policy.

    Half of them repeat two to four fresh names in the forms of an episode, without sense. The other half
    show passages of a few fresh people as an observation does, and then ask, search and answer about them:
    what is to be copied stands in the text above. None shows a whole episode, which is left to the
    demonstrations, and none holds a fact of the world.

    Args:
        rng: what is drawn from.
        count: number of documents, each of 30 to 60 words.
        protocol: whose tags are written; Search-R1's by default.

    Returns:
        `count` texts.
    """
    protocol = protocol or SearchR1()
    return [(_repetition if rng.random() < 0.5 else _lookup)(rng, protocol) for _ in range(count)]


def _repetition(rng: random.Random, protocol: SearchR1) -> str:
    names = list(itertools.islice(_fresh_names(rng), rng.randint(2, 4)))
    forms: list[Callable[[str], str]] = [
        lambda name: f"Where was {name} born?",
        lambda name: f"Who employs {name}?",
        lambda name: f"{name} is a city in {rng.choice(names)}.",
        lambda name: f"{name} was born in {rng.choice(names)}.",
        lambda name: f"{name} works for {rng.choice(names)}.",
        protocol.search,
        protocol.answer,
    ]
    return "\n".join(rng.choice(forms)(rng.choice(names)) for _ in range(10))


def _lookup(rng: random.Random, protocol: SearchR1) -> str:
    names = _fresh_names(rng)

    def entity(text: str) -> tuple[str, Passage]:
        name = next(names)
        return name, Passage(name, name, text.replace("{}", name))

    region = _region(rng, rng.randint(2, 3), (4, 4, 2), entity)
    shown = [*region.people, *rng.sample([*region.cities, *region.firms], 2)]
    rng.shuffle(shown)
    drafts = [draft for person in region.people for draft in (*_one_hop(person), *_two_hop(person))]
    titles = {entity.name for entity in shown}
    lines = ["".join(protocol.observation([entity.passage for entity in shown])).strip()]
    for text, answer, chain in rng.sample(drafts, min(4, len(drafts))):
        missing = [entity.name for entity in chain if entity.name not in titles]
        lines.append(f"Question: {text}\n{protocol.search(missing[0]) if missing else protocol.answer(answer)}")
    return "\n".join(lines)
