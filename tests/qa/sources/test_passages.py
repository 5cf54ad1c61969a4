import json

from tasks.qa.records import Passage


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_corpus_in_both_forms(tmp_path, read):
    rows = [
        {"id": 0, "title": "Karo", "text": "A poet.", "src": ["x"]},
        {"id": "1", "title": "", "text": "A city.", "url": "https://example.org"},
        {"id": "2", "contents": '"Dorna"\nA country.\nIn the north.'},
        {"id": "0", "title": "Karo", "text": "A poet."},
        {"id": 3, "title": "Velin", "text": " "},
        {"id": 4, "contents": '"Only a title"'},
        {"id": 5, "text": "No title."},
    ]
    write_lines(tmp_path / "c.jsonl", rows)
    found = read("passages", "c.jsonl")
    assert found.passages == [
        Passage("0", "Karo", "A poet."),
        Passage("1", "", "A city.", "https://example.org"),
        Passage("2", "Dorna", "A country.\nIn the north."),
    ]
    assert [(fault.reason, fault.origin[-6:]) for fault in found.faults] == [
        ("duplicate_id", "line 4"),
        ("empty_text", "line 5"),
        ("empty_text", "line 6"),
        ("missing_key", "line 7"),
    ]
