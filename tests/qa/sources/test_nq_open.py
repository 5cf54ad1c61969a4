import json


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_nq_open(tmp_path, read):
    write_lines(tmp_path / "q.jsonl", [{"question": "who wrote it", "answer": ["Karo", "K. Velin"]}])
    question = read("nq-open", "q.jsonl", split="validation").question
    assert (question.id, question.golden_answers, question.hops) == ("mine-validation-1", ("Karo", "K. Velin"), 1)
    assert (question.split, question.gold_passage_ids) == ("validation", ())
