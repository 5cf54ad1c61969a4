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
        ('{"data": "of a row"}', "lines"),
    ],
)
def test_how_json_is_laid_out(tmp_path, text, layout):
    (tmp_path / "q").write_text(text)
    assert json_text.layout(tmp_path / "q") == layout


def test_elements_below_a_key_and_rows_after_which_it_breaks(tmp_path):
    (tmp_path / "q").write_text('{"version": 1, "data": [{"a": 1.5}, 7]}')
    first, second = json_text.json_array(tmp_path / "q", "data.item")
    assert first == (f"{tmp_path}/q, row 1", {"a": 1.5})
    assert isinstance(second[1], RowError) and second[1].reason == "not_an_object"
    (tmp_path / "q").write_text('[{"a": 1}, {"a": 2}, {')
    with pytest.raises(InputError, match=r"q, after row 2: not JSON"):
        list(json_text.json_array(tmp_path / "q"))
