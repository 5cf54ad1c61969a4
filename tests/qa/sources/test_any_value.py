"""Whatever stands in a row, it becomes a question or a passage that can be stored, or a fault that names its line."""

import copy
import json
from dataclasses import asdict

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.agent.rewards import normalise
from tasks.qa.records import Fault, Passage, Question

ROWS = {
    "jsonl": {
        "id": "a",
        "question": "Who?",
        "golden_answers": ["Karo"],
        "data_source": "nq",
        "hops": 2,
        "type": "bridge",
        "supporting_titles": ["T"],
        "gold_passage_ids": [1],
    },
    "hotpotqa": {
        "_id": "a",
        "question": "Who?",
        "answer": "Karo",
        "type": "bridge",
        "supporting_facts": [["Velin", 0]],
        "context": [["Velin", ["It is."]], ["Karo", ["He is.", "Or not."]]],
    },
    "musique": {
        "id": "a",
        "question": "Who?",
        "answer": "Karo",
        "answer_aliases": ["K."],
        "answerable": True,
        "paragraphs": [{"idx": 0, "title": "Velin", "paragraph_text": "It is."}],
        "question_decomposition": [{"paragraph_support_idx": 0}],
    },
    "squad": {
        "id": "a",
        "title": "Velin",
        "context": "It is.",
        "question": "Who?",
        "answers": {"text": ["Karo"], "answer_start": [0]},
    },
    "nq-open": {"question": "Who?", "answer": ["Karo"]},
    "gsm8k": {"question": "Who?", "answer": "So #### 1,000"},
    "gaia": {
        "task_id": "a",
        "Question": "Who?",
        "Level": 1,
        "Final answer": "Karo",
        "file_name": "",
    },
    "verl": {
        "data_source": "nq",
        "prompt": [{"role": "user", "content": "Question: who?"}],
        "reward_model": {"ground_truth": {"target": ["Karo"], "scorer": "gaia"}},
        "extra_info": {"index": 1, "hops": 1, "type": "bridge"},
    },
    "passages": {"id": 1, "title": "Velin", "text": "It is.", "url": "u"},
    "beir": {"_id": "1", "title": "Velin", "text": "It is.", "metadata": {"url": "u"}},
}
TEXT = st.text(max_size=4) | st.sampled_from(["\ud800", "[1", "['a' 'b']", "[]", "the", "#### ", '"a"\nb', " "])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["title", "text", "target"]), inner),
    max_leaves=4,
)


def places(value, path=()):
    """Every place in a nested value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def changed(row, path, value, gone):
    row = copy.deepcopy(row)
    holder = row
    for key in path[:-1]:
        holder = holder[key]
    if gone:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return row


@pytest.mark.parametrize("reader", ROWS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), value=VALUE, gone=st.booleans())
def test_any_value_at_any_place(tmp_path, read, reader, data, value, gone):
    whole = ROWS[reader]
    row = changed(whole, data.draw(st.sampled_from(list(places(whole)))), value, gone)
    (tmp_path / "q.jsonl").write_text(json.dumps(whole) + "\n" + json.dumps(row) + "\n")
    items = read(reader, "q.jsonl").items
    pa.array([asdict(item) for item in items if isinstance(item, Passage)])  # what can't be stored raises
    if reader in ("passages", "beir"):
        assert items[0] == read(reader, "q.jsonl", limit=1).items[0]
        assert all(item.origin.endswith("line 2") for item in items[1:] if isinstance(item, Fault))
        return
    first, second = (item for item in items if not isinstance(item, Passage))
    assert isinstance(first, Question)
    assert second.origin == f"{tmp_path}/q.jsonl, line 2"
    if isinstance(second, Question):
        pa.array([asdict(second)])
        assert second.id and second.question.strip() and second.hops >= 1
        assert second.golden_answers and any(normalise(answer) for answer in second.golden_answers)
