import json

from tasks.qa.records import Passage


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_corpus_of_beir(tmp_path, read):
    rows = [
        {"_id": "4983", "title": "", "text": "Alterations.", "metadata": {}},
        {"_id": "5836", "title": "Myelo", "text": "Cells.", "metadata": {"url": "https://example.org/1"}},
    ]
    write_lines(tmp_path / "corpus.jsonl", rows)
    assert read("beir", "corpus.jsonl").passages == [
        Passage("4983", "", "Alterations."),
        Passage("5836", "Myelo", "Cells.", "https://example.org/1"),
    ]
    assert "the reader 'beir' takes such rows" in read("passages", "corpus.jsonl").faults[0].message
