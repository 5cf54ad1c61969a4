import gzip
import json
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.evaluation.ability import Choices, generated, read
from tasks.qa import practice, world

ROW = {"question": "Which is a river?", "choices": ["Oka", "Paris"], "answer": 0}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_a_question_is_asked_and_a_context_continued(tmp_path: Path) -> None:
    told = {"context": "A man sits", "choices": ["on a roof.", " down."], "answer": " down."}
    path = write(tmp_path / "q.jsonl", ROW, told, {**told, "context": "A man sits "})
    asked, continued, spaced = read(path, 9, 0)
    assert asked == Choices("Question: Which is a river?\nAnswer:", ("Oka", "Paris"), 0, f"{path}, line 1")
    assert asked.continuations == [" Oka", " Paris"]
    assert (continued.context, continued.answer, continued.continuations) == (
        "A man sits",
        1,
        [" on a roof.", " down."],
    )
    assert spaced.continuations == ["on a roof.", " down."]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("{", "not JSON"),
        ([1], "must be an object with keys"),
        ({**ROW, "context": "x"}, "must have one of the keys 'question' and 'context'"),
        ({"choices": ["a", "b"], "answer": 0}, "must have one of the keys"),
        ({**ROW, "question": " "}, "question: is empty"),
        ({**ROW, "choices": "Oka"}, "choices: must be a list, got a text"),
        ({**ROW, "choices": ["Oka"]}, "choices: must be two or more, all different, got 1"),
        ({**ROW, "choices": ["Oka", "Oka"]}, "choices: must be two or more, all different"),
        ({**ROW, "choices": ["Oka", " Oka"]}, "choices: must be two or more, all different"),
        ({**ROW, "choices": []}, "choices: must be two or more, all different, got 0"),
        ({**ROW, "choices": ["Oka", 3]}, "choices.1: must be a text, got the number 3"),
        ({**ROW, "choices": ["Oka", ""]}, "choices.1: is empty"),
        ({"question": "Who?", "answer": 0}, "key 'choices' is missing"),
        ({**ROW, "answer": 2}, "answer: must be the place of a choice, 0 to 1, or its text, got the number 2"),
        ({**ROW, "answer": -1}, "got the number -1"),
        ({**ROW, "answer": True}, "got true or false"),
        ({**ROW, "answer": "oka"}, "got 'oka'"),
        ({**ROW, "answer": None}, "got null"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, row: object, told: str) -> None:
    path = write(tmp_path / "q.jsonl", ROW, row)
    with pytest.raises(InputError) as caught:
        read(path, 9, 0)
    assert str(caught.value).startswith(f"{path}, line 2: ") and told in str(caught.value), str(caught.value)


def test_a_missing_file_and_an_empty_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "q.jsonl", 9, 0)
    with pytest.raises(InputError, match="holds no"):
        read(write(tmp_path / "blank.jsonl", "", " "), 9, 0)


def test_of_more_questions_some_are_drawn_over_the_whole_file_in_its_order(tmp_path: Path) -> None:
    rows = [{**ROW, "question": f"Which is river {n}?"} for n in range(200)]
    with gzip.open(tmp_path / "q.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))

    def numbers(count: int, seed: int) -> list[int]:
        return [int(one.context.split()[4].rstrip("?")) for one in read(tmp_path / "q.jsonl.gz", count, seed)]

    drawn = numbers(50, 0)
    assert len(set(drawn)) == 50 and drawn == sorted(drawn) and drawn[0] < 50 and drawn[-1] > 150
    assert numbers(50, 0) == drawn != numbers(50, 1)
    assert numbers(200, 0) == list(range(200))


def test_generated_choices_are_orders_of_the_same_words_and_one_is_a_sentence() -> None:
    names = practice.spare_names({"Bakola"})
    made, known = generated.questions(names, 200, 0), set(names)
    for one in made:
        assert len(set(one.choices)) == 4
        assert len({tuple(sorted(choice[:-1].split())) for choice in one.choices}) == 1
        # Names exchanged would be as good: with every name the same, the four still differ.
        assert (
            len({tuple("" if word in known else word for word in choice[:-1].split()) for choice in one.choices}) == 4
        )
        assert one.context.split()[0].rstrip(".") in known or one.context.endswith("?")
    right = [one.choices[one.answer] for one in made]
    first = known | {"Where", "Who", "Which", "Were"}
    assert all(text.split()[0] in first for text in right)
    assert {one.answer for one in made} == {0, 1, 2, 3}
    assert generated.questions(names, 200, 0) == made != generated.questions(names, 200, 1)


def test_no_generated_question_is_about_the_corpus() -> None:
    made = world.generate(
        0,
        {"train": 20, "validation": 4, "test": 4},
        {"train": 8, "validation": 4, "test": 4},
        {"one-hop": 0.5, "two-hop": 0.5},
    )
    titles = {passage.title for passage in made.passages}
    said = {
        word.strip(".?")
        for one in generated.questions(practice.spare_names(titles), 100, 0)
        for text in (one.context, *one.choices)
        for word in text.split()
    }
    assert not titles & said
