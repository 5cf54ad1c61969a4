import tracemalloc

import pytest

from tasks.errors import InputError
from tasks.qa.reading import RowError, json_text


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ('{"id": 1}\n{"id": 2}\n', "lines"),
        ('\n  {"data_source": "nq", "data": []}', "lines"),
        ("[", "array"),
        ('{\n  "id": 1\n}', "object"),
        ('{"version": "v2.0", "data": [{}]}', "object"),
        ('{"data": [{}], "version": "1.1"}', "object"),
        ('{"version": 1.1, "data": []}', "object"),
        ('{"version": 3, "id": 1}\n{"version": 3, "id": 2}', "lines"),
        ('{"version": "3", "data": ["of a row"]}', "lines"),
        ('{"data": "of a row"}', "lines"),
    ],
)
def test_how_json_is_laid_out(tmp_path, text, layout):
    (tmp_path / "q").write_text(text)
    assert json_text.layout(tmp_path / "q") == layout


def test_elements_below_a_key_and_rows_after_which_it_breaks(tmp_path):
    (tmp_path / "q").write_text('{"version": 1, "data": [{"a": 1.5}, 7]}')
    first, second = json_text.json_array(tmp_path / "q", "data.item")
    assert first == (f"{tmp_path}/q, row 0", {"a": 1.5})
    assert isinstance(second[1], RowError) and second[1].reason == "not_an_object"
    (tmp_path / "q").write_text('[{"a": 1}, {"a": 2}, {')
    with pytest.raises(InputError, match=r"q, from row 2 on: not JSON"):
        list(json_text.json_array(tmp_path / "q"))


def test_what_is_nested_too_deeply_is_refused_before_it_fills_the_memory(tmp_path):
    (tmp_path / "q").write_text("[" * json_text.DEEPEST + "]" * json_text.DEEPEST)
    assert len(list(json_text.json_array(tmp_path / "q"))) == 1
    (tmp_path / "q").write_text("[" * 1_000_000)
    tracemalloc.start()
    with pytest.raises(InputError, match="q, from row 0 on: nested more than 100 deep"):
        list(json_text.json_array(tmp_path / "q"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # ijson hands over 64 KiB of the file at a time; the paths of 1,000 levels alone would be 2.5 MB, of all 2.5 TB.
    assert most < 20e6


def test_a_key_that_comes_twice_is_found_at_any_depth(tmp_path):
    text = '{"a": [{"b": 1, "b": 1}]}'
    with pytest.raises(RowError, match="key 'b' comes twice in one object"):
        json_text.decoded(text)
    (tmp_path / "q").write_text(f'[{{"a": {{"b": 1}}, "b": 2}}, {text}]')
    with pytest.raises(InputError, match="q, from row 1 on: key 'b' comes twice in one object"):
        list(json_text.json_array(tmp_path / "q"))
