"""Practice text: generated documents on which a policy made from scratch learns to copy a name.

Copying a name never seen before is what a small model needs longest to learn, and nothing in the DAG works
without it. Short documents come first, in which there is little to look at but the name to be copied; then
passages with questions about them. No name of the corpus is practised, and no document shows a whole
episode: that is left to the demonstrations.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.agent.protocols import Protocol
from tasks.agent.toolbox.base import Passage, Result
from tasks.qa import records, world
from tasks.qa.world import City, Draft, Entity, Firm, Region, comparison, one_hop, region, two_hop

Text = Literal["repeats", "reading"]


@dataclass(frozen=True)
class Practice:
    """What documents are written from.

    Attributes:
        rng: source of randomness.
        names: whom and what they are about.
        protocol: whose turns and observations are written.
        message: role and content as the policy's chat template writes them, for a protocol whose turns it frames.
    """

    rng: random.Random
    names: Sequence[str]
    protocol: Protocol
    message: Callable[[str, str], str]

    def documents(self, text: Text) -> Iterator[str]:
        """Documents without end.

        Args:
            text: `repeats`: up to 20 words in which names come back; `reading`: up to 120 words, passages as an
                observation shows them, and questions that are answered, or searched for, from what stands above.
        """
        writers = [write for write, _ in TEXTS[text]]
        weights = [weight for _, weight in TEXTS[text]]
        while True:
            yield self.rng.choices(writers, weights)[0](self)

    def some_names(self, least: int, most: int) -> list[str]:
        """Different names, at least and at most so many."""
        return self.rng.sample(self.names, self.rng.randint(least, most))


def spare_names(taken: Collection[str]) -> list[str]:
    """Names as long as the taken ones and different from them; of two syllables where none of a world's is taken."""
    for syllables in (3, 2):
        every = world.names(syllables)
        spare = [name for name in every if name not in taken]
        if len(spare) < len(every):
            return spare
    return every


def _sequence(on: Practice) -> str:
    """A few names, said in the same order two to four times."""
    line = "".join(f" {name}" for name in on.some_names(2, 4))
    return f"{line}." * on.rng.randint(2, 4)


def _ask(on: Practice) -> str:
    """A question, and the search for the name in it."""
    name, other = on.some_names(2, 2)
    asked = on.rng.choice(
        [
            f"Where was {name} born?",
            f"Who employs {name}?",
            f"Which country was {name} born in?",
            f"Which city is the employer of {name} based in?",
            f"Were {name} and {other} born in the same city?",
        ]
    )
    return _question(on, asked, on.protocol.search(name))


def _mentions(on: Practice) -> str:
    """Two or three names in the forms in which an episode mentions one, without sense."""
    names = on.some_names(2, 3)
    forms: list[Callable[[str], str]] = [
        lambda name: f" Where was {name} born?",
        lambda name: f" Who employs {name}?",
        lambda name: f" {name} is a city.",
        lambda name: f" Question: {name} works.",
        lambda name: _turn(on, on.protocol.search(name)),
        lambda name: _turn(on, on.protocol.answer(name)),
    ]
    return "".join(on.rng.choice(forms)(on.rng.choice(names)) for _ in range(on.rng.randint(5, 8)))


def _turn(on: Practice, text: str) -> str:
    """A generated turn, in its frame where it has one."""
    return on.message("assistant", text) if on.protocol.ends_turn else text


def _question(on: Practice, text: str, turn: str) -> str:
    if on.protocol.ends_turn:
        return on.message("user", f"Question: {text}") + _turn(on, turn)
    return f" Question: {text}\n{turn}\n"


def _fresh_region(on: Practice, people: int) -> Region:
    names = iter(on.rng.sample(on.names, people + 10))  # four cities, four firms, two countries

    def entity(text: str) -> tuple[str, records.Passage]:
        name = next(names)
        return name, records.Passage(name, name, text.replace("{}", name))

    return region(on.rng, people, (4, 4, 2), entity)


def _observation(on: Practice, shown: Sequence[Entity], numbers: dict[str, int]) -> str:
    passages = [entity.passage for entity in shown]
    found = Result(passages=tuple(Passage(passage.id, passage.title, passage.text) for passage in passages))
    said = on.protocol.show([found], numbers)
    if said.role is not None:
        return "".join(on.message(said.role, body) for body in said.bodies)
    return "".join([said.opening, *said.bodies, said.closing]).strip() + "\n"


def _answer(on: Practice, answer: str, chain: Sequence[Entity], numbers: Mapping[str, int]) -> str:
    """A turn that answers from passages that were shown; it notes and cites them where the protocol has that."""
    sources = [numbers[entity.name] for entity in chain if entity.name in numbers]
    return _facts(on, chain, answer, numbers) + on.protocol.answer(answer, sources=sources)


def _facts(on: Practice, chain: Sequence[Entity], wanted: str, numbers: Mapping[str, int]) -> str:
    """A fact of each passage of a chain that was shown: the sentence that says what is wanted, or the first."""
    lines = []
    for entity in chain:
        if entity.name in numbers:
            sentences = entity.passage.text.split(". ")
            said = next((one for one in sentences if wanted in one), sentences[0]).removesuffix(".")
            lines.append(on.protocol.fact(f"{said}.", [numbers[entity.name]]))
    return "".join(lines)


def _people(on: Practice, people: int, places: int, questions: int) -> str:
    """Passages of people, some places among them, and questions; what isn't shown is searched for."""
    made = _fresh_region(on, people)
    shown = [*made.people, *on.rng.sample([*made.cities, *made.firms], places)]
    on.rng.shuffle(shown)
    titles = {entity.name for entity in shown}
    drafts: list[Draft] = [draft for person in made.people for draft in (*one_hop(person), *two_hop(person))]
    drafts += [comparison(*pair) for pair in itertools.combinations(made.people, 2)]
    numbers: dict[str, int] = {}
    seen = _observation(on, shown, numbers)
    lines = []
    for text, answer, chain in on.rng.sample(drafts, questions):
        missing = [entity.name for entity in chain if entity.name not in titles]
        if missing:
            turn = _facts(on, chain, missing[0], numbers) + on.protocol.search(missing[0])
        else:
            turn = _answer(on, answer, chain, numbers)
        lines.append(_question(on, text, turn))
    return seen + "".join(lines)


def _person(on: Practice) -> str:
    return _people(on, 1, on.rng.randint(0, 1), on.rng.randint(1, 2))


def _group(on: Practice) -> str:
    return _people(on, on.rng.randint(1, 3), on.rng.randint(0, 2), on.rng.randint(2, 4))


def _places(on: Practice) -> str:
    """Passages of three cities and firms, and two questions where they are."""
    made = _fresh_region(on, 2)
    places: list[City | Firm] = [*made.cities, *made.firms]
    shown = on.rng.sample(places, 3)
    numbers: dict[str, int] = {}
    seen = _observation(on, shown, numbers)
    lines = []
    for place in on.rng.sample(shown, 2):
        answer = place.country.name if isinstance(place, City) else place.city.name
        lines.append(_question(on, f"Where is {place.name}?", _answer(on, answer, [place], numbers)))
    return seen + "".join(lines)


TEXTS: dict[Text, list[tuple[Callable[[Practice], str], float]]] = {
    "repeats": [(_sequence, 1), (_ask, 1)],
    "reading": [(_person, 2), (_group, 1), (_places, 1), (_mentions, 1), (_ask, 1)],
}
