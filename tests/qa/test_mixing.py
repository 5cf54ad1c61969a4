from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.agent.rewards import normalise
from tasks.errors import InputError
from tasks.params import Ingest, Proportion
from tasks.qa.mixing import Mixed, allotment, check, interleaved, mix
from tasks.qa.records import SPLITS, Question
from tasks.qa.splitting import unnamed
from tasks.qa.table import Spool

PLAIN = {
    "data_dir": ".",
    "sources": [{"reader": "world"}],
    "corpus": None,
    "max_faulty": 0.0,
    "max_dropped": 1.0,
    "drop_near_duplicates": False,
    "separate": "question",
    "validation_share": 0.0,
    "test_share": 0.0,
    "mixture": {"sources": {}, "hops": {}},
    "shuffle": False,
}


def ask(text: str, split: str = "train", source: str = "s", **more: object) -> Question:
    gold = tuple(more.get("gold", ()))
    answers = tuple(more.get("answers", (text,)))
    identity, hops = more.get("id", f"{source} {split} {text}"), more.get("hops", 1)
    titles = tuple(more.get("titles", ()))
    return Question(identity, source, text, answers, hops, titles, gold, f"file, {text}", split)


def run(table: pa.Table, seed: int = 0, **changes: object) -> Mixed:
    return mix(table, Ingest.model_validate({**PLAIN, **changes}), seed)


def texts(table: pa.Table, mixed: Mixed) -> dict[str, list[str]]:
    return {split: table["question"].take(pa.array(mixed.splits[split])).to_pylist() for split in SPLITS}


def test_equal_questions_are_kept_once_and_never_in_a_split_that_learns(spooled):
    table = spooled(
        [
            *(ask(text, "train", "one") for text in ("Who?", "who", "Where?", "Why?")),
            ask("The Why", "test", "one"),
            *(ask(text, "train", "two") for text in ("WHO", "Now?")),
            *(ask(text, "validation", "two") for text in ("why!", "where", "When?")),
        ]
    )
    mixed = run(table)
    assert texts(table, mixed) == {
        "train": ["Who?", "Now?"],
        "validation": ["where", "When?"],
        "test": ["The Why"],
    }
    assert mixed.dropped == {"duplicate": 2, "train_in_held_out": 2, "validation_in_test": 1}


def test_what_is_nearly_held_out_is_dropped_and_counted(spooled):
    table = spooled(
        [
            ask("Who wrote the novel Emma?", "test", answers=["Austen"]),
            ask("Who made the film Jaws?", "validation", answers=["Spielberg"]),
            ask("Who penned the novel Emma?", answers=["Jane Austen", "Austen"]),
            ask("Who shot the film Jaws?", answers=["Spielberg"]),
            ask("Who sang the song Hello?", answers=["Adele"], gold=["1"]),
            ask("Who wrote the song Hello?", answers=["Adele"], gold=["1"]),
            ask("Who penned the novel Dune?", answers=["Herbert"]),
        ]
    )
    kept = texts(table, mixed := run(table, drop_near_duplicates=True))
    assert kept["train"] == ["Who sang the song Hello?", "Who penned the novel Dune?"]
    assert mixed.dropped == {"near_held_out": 2, "near_duplicate": 1}
    assert len(texts(table, run(table))["train"]) == 5


def test_splits_are_drawn_only_where_a_source_brings_none(spooled):
    table = spooled(
        [
            *(ask(f"one {n}", "train", "one") for n in range(20)),
            *(ask(f"two {n}", "train", "two") for n in range(20)),
            ask("own", "validation", "two"),
        ]
    )
    mixed = run(table, validation_share=0.25, test_share=0.1)
    found = texts(table, mixed)
    assert len(found["validation"]) == 5  # a quarter of the 18 that are left of one, rounded to the even 4; and "own"
    assert sum(text.startswith("two") for text in found["validation"]) == 0
    assert Counter(text.split()[0] for text in found["test"]) == {"one": 2, "two": 2}
    assert sorted(text for of_split in found.values() for text in of_split) == sorted(table["question"].to_pylist())
    assert texts(table, run(table, validation_share=0.25, test_share=0.1)) == found
    assert texts(table, run(table, seed=1, validation_share=0.25, test_share=0.1)) != found


def test_a_source_draws_the_same_whatever_stands_beside_it(tmp_path):
    def drawn(*sources: str) -> list[str]:
        spool = Spool(tmp_path / "-".join(sources))
        for source in sources:
            for number in range(20):
                spool.add(source, ask(f"{source} {number}", "train", source))
        table = spool.table()
        return [text for text in texts(table, run(table, test_share=0.25))["test"] if text.startswith("one")]

    assert len(drawn("one")) == 5
    assert drawn("two", "one") == drawn("one")


def test_questions_about_one_passage_stay_in_one_split(spooled):
    # Passages 0 .. 9 with four questions each, and one question that ties passages 0 and 1 together.
    asked = [ask(f"about {n} number {k}", gold=[str(n)]) for n in range(10) for k in range(4)]
    table = spooled([*asked, ask("about 0 and 1", gold=["0", "1"])])
    mixed = run(table, separate="passage", test_share=0.3, validation_share=0.2)
    golds = {
        split: {
            gold for one in table["gold_passage_ids"].take(pa.array(mixed.splits[split])).to_pylist() for gold in one
        }
        for split in SPLITS
    }
    assert all(golds.values())
    assert not golds["train"] & golds["test"]
    assert not golds["train"] & golds["validation"]
    assert not golds["validation"] & golds["test"]
    assert len(mixed.splits["test"]) in (12, 9)  # of 41: three passages, or the tied two, whichever fits in 12
    assert not mixed.dropped


def test_questions_about_one_title_stay_in_one_split(spooled):
    table = spooled(ask(f"about {n} number {k}", titles=[f"T{n}"]) for n in range(10) for k in range(4))
    mixed = run(table, separate="passage", test_share=0.3)
    titles = {
        split: set(
            table["supporting_titles"].take(pa.array(mixed.splits[split])).combine_chunks().flatten().to_pylist()
        )
        for split in ("train", "test")
    }
    assert len(titles["test"]) == 3
    assert not titles["train"] & titles["test"]


def test_questions_of_several_sources_about_one_passage_stay_in_one_split(spooled):
    table = spooled(ask(f"{s} {n}", source=s, gold=[str(n)]) for n in range(20) for s in ("one", "two"))
    mixed = run(table, separate="passage", test_share=0.25, validation_share=0.2)
    assert {split: len(rows) for split, rows in mixed.splits.items()} == {"train": 24, "validation": 6, "test": 10}
    assert not mixed.dropped
    for rows in mixed.splits.values():
        assert set(Counter(table["gold_passage_ids"][int(row)].as_py()[0] for row in rows).values()) == {2}


def test_questions_that_name_nothing_are_counted(spooled):
    assert unnamed(spooled([ask("a"), ask("b", gold=["1"]), ask("c", titles=["T"]), ask("d")])) == 2


def test_a_training_row_about_a_held_out_passage_is_dropped_where_asked_for(spooled):
    table = spooled(
        [ask("test", "test", gold=["1"]), ask("shared", gold=["2", "1"]), ask("free", gold=["2"]), ask("none")]
    )
    assert texts(table, mixed := run(table, separate="passage"))["train"] == ["free", "none"]
    assert mixed.dropped["gold_passage_held_out"] == 1
    assert len(texts(table, run(table))["train"]) == 3


def test_weights_and_caps_by_hand():
    # Half as much of a as of b: unit = min(100 / 1, 60 / 2) = 30, so 30 of a, 60 of b; c has no weight.
    weights = {"a": Proportion(weight=1), "b": Proportion(weight=2)}
    assert allotment({"a": 100, "b": 60, "c": 7}, weights) == {"a": 30, "b": 60, "c": 7}
    # The cap comes first: unit = min(100, 20 / 2) = 10.
    assert allotment({"a": 100, "b": 60}, {**weights, "b": Proportion(weight=2, cap=20)}) == {"a": 10, "b": 20}
    assert allotment({"a": 3, "b": 60}, {"b": Proportion(cap=5)}) == {"a": 3, "b": 5}


def test_the_mixture_is_drawn_from_training_rows_alone(spooled):
    table = spooled(
        [ask(f"{s} {n}", "train", s, hops=1 + n % 2) for s, count in (("a", 80), ("b", 40)) for n in range(count)]
        + [ask(f"a test {n}", "test", "a") for n in range(30)]
    )
    hops = {2: {"weight": 1}, 1: {"weight": 2}}
    mixed = run(table, mixture={"sources": {"a": {"cap": 20}}, "hops": hops}, shuffle=True)
    with pytest.raises(ValueError, match="each would spoil the other's"):
        run(table, mixture={"sources": {"a": {"weight": 1}}, "hops": hops})
    rows = table.take(pa.array(mixed.splits["train"])).to_pylist()
    # 20 of a and 40 of b, drawn evenly: 30 of each number of hops; then 15 of two hops against 30 of one.
    assert Counter(row["hops"] for row in rows) == {1: 30, 2: 15}
    assert Counter(row["source"] for row in rows) == {"a": 15, "b": 30}
    assert mixed.dropped == {"mixture": 60 + 15}
    assert len(mixed.splits["test"]) == 30


@pytest.mark.parametrize("kind", ["sources", "hops"])
def test_a_mixture_of_what_is_not_there_is_refused(spooled, kind):
    table = spooled([ask("one")])
    name = "sqaud" if kind == "sources" else 4
    with pytest.raises(InputError, match=f"ingest.mixture.{kind}: no training question of .*'{name}'; there are: "):
        run(table, mixture={"sources": {}, "hops": {}, kind: {name: {"cap": 1}}})


def test_without_shuffling_rows_stand_as_they_were_read(spooled):
    asked = [ask(f"{name} {n}", "train", name) for name in ("a", "b") for n in range(50)]
    table = spooled(asked)
    assert texts(table, run(table))["train"] == [question.question for question in asked]
    shuffled = texts(table, run(table, shuffle=True))["train"]
    assert sorted(shuffled) == sorted(question.question for question in asked)
    assert texts(table, run(table, shuffle=True))["train"] == shuffled
    assert texts(table, run(table, shuffle=True, seed=1))["train"] != shuffled


@given(counts=st.lists(st.integers(1, 60), min_size=1, max_size=5), seed=st.integers(0, 2**32 - 1))
def test_every_stretch_holds_nearly_each_label_s_share(counts, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    order = interleaved(labels, np.random.default_rng(seed))
    assert sorted(order) == list(range(len(labels)))
    share = np.array(counts) / len(labels)
    seen = np.cumsum(labels[order][:, None] == np.arange(len(counts)), axis=0)
    wanted = np.arange(1, len(labels) + 1)[:, None] * share
    # Up to a place x in [0, 1] each label has n x rows, give or take one; all of them N x, give or take one a label.
    assert np.abs(seen - wanted).max() <= 1 + len(counts)


def test_the_rows_of_a_label_are_shuffled():
    order = interleaved(np.zeros(50, int), np.random.default_rng(0))
    assert list(order) != sorted(order)
    assert len(interleaved(np.zeros(0, int), np.random.default_rng(0))) == 0


@settings(deadline=None)
@given(
    words=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(SPLITS), st.sampled_from("xy"))),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_question_is_lost_or_in_two_splits(tmp_path_factory, words, share, seed):
    spool = Spool(tmp_path_factory.mktemp("spool") / "questions")
    for number, (word, split, source) in enumerate(words):
        spool.add(source, ask(f"{word}{word}", split, source, id=str(number)))
    table = spool.table()
    mixed = run(table, seed, validation_share=share, test_share=share, shuffle=True)
    kept = [normalise(text) for of_split in texts(table, mixed).values() for text in of_split]
    assert len(kept) == len(set(kept))
    assert set(kept) == {word * 2 for word, _, _ in words}  # doubled: a single "a" is an article
    assert len(kept) + mixed.dropped.total() == len(words)


def test_an_id_twice_and_a_lost_gold_passage_are_refused(spooled):
    with pytest.raises(InputError, match="file, b: question id 'a' comes twice; first at file, a"):
        check(spooled([ask("a", id="a"), ask("b", id="a")]), pa.array([], pa.string()))
    with pytest.raises(InputError, match="file, a: question 'a': its gold passage '9' is not in the corpus"):
        check(spooled([ask("z", id="z"), ask("a", id="a", gold=["1", "9"])]), pa.array(["1"]))
    check(spooled([ask("a", gold=["1"]), ask("b")]), pa.array(["1"]))
