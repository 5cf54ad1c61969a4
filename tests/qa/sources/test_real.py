"""The real sets beside this checkout, with numbers counted by hand in their files."""

from pathlib import Path

import pytest

from tasks.qa.corpus import Corpus

REAL = Path(__file__).parents[3] / ".." / "shared" / "data"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not beside this checkout")


@pytest.mark.parametrize(
    ("name", "count", "faulty"),
    [
        ("hotpotqa.train", 1087, 0),
        ("hotpotqa.test", 500, 0),
        ("nq.train", 2158, 0),  # the answer "*" on line 1185 is one of three
        ("nq.test", 497, 0),
        ("squad.train", 996, 0),
        ("squad.test", 194, 0),
        ("2wikimultihopqa.train", 500, 0),
        ("musique.train", 192, 0),
    ],
)
def test_unified_rows(read, name, count, faulty):
    found = read("jsonl", (REAL / "qa" / f"{name}.jsonl").resolve())
    assert (len(found.questions), len(found.faults)) == (count, faulty)
    assert all(q.gold_passage_ids and q.data_source == name.split(".")[0] for q in found.questions)


@pytest.mark.parametrize(
    ("reader", "path", "questions", "faults", "passages"),
    [
        ("hotpotqa", "official/hotpotqa_train_100.json", 100, 0, 994),
        ("musique", "official/musique_train_100.json", 100, 0, 1890),
        ("squad", "official/squad_en_240.json", 1190, 0, 240),
        ("nq-open", "official/NQ-open.dev.jsonl", 3608, 2, 0),  # the only answers "---" and ")"
        ("verl", "official/musique_train_verl_rows.parquet", 19938, 0, 0),
        ("gsm8k", "gsm8k/train.jsonl.gz", 7473, 0, 0),
        ("gsm8k", "gsm8k/test.jsonl", 1319, 0, 0),
    ],
)
def test_official_forms(read, reader, path, questions, faults, passages):
    found = read(reader, (REAL / path).resolve())
    assert (len(found.questions), len(found.faults), len(found.passages)) == (questions, faults, passages)
    known = {passage.id for passage in found.passages}
    assert all(set(q.gold_passage_ids) <= known and bool(q.gold_passage_ids) == bool(passages) for q in found.questions)
    assert len({q.id for q in found.questions}) == questions
    assert {fault.reason for fault in found.faults} <= {"unmatchable_answer"}


def test_first_questions_of_the_official_forms(read):
    def first(reader, path):
        return read(reader, (REAL / path).resolve(), limit=1).question

    hotpot = first("hotpotqa", "official/hotpotqa_train_100.json")
    assert (hotpot.question, hotpot.hops) == ("If Gallu is a demon Lilu is what?", 2)
    assert hotpot.supporting_titles == ("Alû", "Lilu (mythology)")
    musique = first("musique", "official/musique_train_100.json")
    assert musique.golden_answers == ("G. Stanley Hall", "Stanley Hall")
    assert musique.supporting_titles == ("Journal of Psychotherapy Integration", "Adolescence")
    assert first("squad", "official/squad_en_240.json").supporting_titles == ("Super Bowl 50",)
    verl = first("verl", "official/musique_train_verl_rows.parquet")
    assert (verl.id, verl.golden_answers) == ("bdsaglam/musique-train-0", ("1960",))
    assert first("gsm8k", "gsm8k/train.jsonl.gz").golden_answers == ("72",)


def test_the_official_sets_find_their_gold_passages_in_the_corpus(read):
    corpus = read("passages", (REAL / "corpus/wiki_passages.jsonl.gz").resolve())
    assert (len(corpus.passages), len(corpus.faults)) == (47748, 0)
    known = {passage.id: passage for passage in corpus.passages}
    for reader, path in [
        ("hotpotqa", "official/hotpotqa_train_100.json"),
        ("musique", "official/musique_train_100.json"),
        ("squad", "official/squad_en_240.json"),
    ]:
        found = read(reader, (REAL / path).resolve(), corpus=Corpus(corpus.passages))
        assert not found.faults and not found.passages
        for question in found.questions:
            titles = [known[identity].title for identity in question.gold_passage_ids]
            assert set(titles) == set(question.supporting_titles)
