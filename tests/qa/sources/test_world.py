from tasks.qa.sources import registry, source_keys
from tasks.qa.sources.base import Context
from tasks.qa.world import generate


def test_the_world_is_what_it_generates_with_each_question_in_its_split(tmp_path):
    counts = {"train": 8, "validation": 4, "test": 5}
    keys = {"people": dict.fromkeys(counts, 20), "questions": counts, "kinds": {"one-hop": 0.5, "two-hop": 0.5}}
    source = registry()["world"](
        source_keys({"reader": "world", **keys}, "ingest.sources.0"), Context(tmp_path, 3, None)
    )
    items = list(source.items())
    made = generate(3, keys["people"], counts, keys["kinds"])
    assert items[: len(made.passages)] == made.passages
    questions = items[len(made.passages) :]
    assert [question.id for question in questions] == [one.id for split in counts for one in made.questions[split]]
    assert all(question.split == question.id.split("-")[1] for question in questions)
    assert source.provenance()["seed"] == 3
