import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.qa.reading import json_text, tables

ROW = {"id": "a", "question": "Who is it that we are looking for?", "golden_answers": ["Karo"]}


def every(names):
    return names


def write(path, form, rows):
    if form == "lines":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "array":
        path.write_text(json.dumps(rows))
    elif form == "values":
        path.write_text("id,question\n" + "".join(f"{row['id']},{row['question']}\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)


READERS = {
    "lines": json_text.json_lines,
    "array": json_text.json_array,
    "values": lambda path: tables.separated(path, ",", every),
    "parquet": lambda path: tables.parquet(path, every),
}


@pytest.mark.parametrize("form", READERS)
def test_memory_does_not_grow_with_the_file(tmp_path, form):
    def peak(count):
        write(tmp_path / "q", form, [ROW] * count)
        tracemalloc.start()
        assert sum(1 for _ in READERS[form](tmp_path / "q")) == count
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)  # imports
    # Three times as many rows need no more; a batch of parquet is 8,192 rows.
    few = 9_000 if form == "parquet" else 2_000
    assert peak(3 * few) < 1.5 * peak(few) + 100_000
