import pytest

from tasks.qa.reading import RowError, nested


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1], [1]),
        ('[{"a": true}]', [{"a": True}]),
        ("[{'a': True, 'b': None}]", [{"a": True, "b": None}]),
        ("[\"it's 'x' 'y'\"]", ["it's 'x' 'y'"]),
        ("['a' ,\n 'b']", ["a", "b"]),
    ],
)
def test_nested_values_in_texts(value, found):
    assert nested.decoded(value, "k") == found


@pytest.mark.parametrize(
    "text",
    [
        "['a' 'b']",
        "['a'\n 'b']",
        "[1 2]",
        "array(['a'], dtype=object)",
        "{[]: 1}",
        "[" * 5000,
        "__import__('os')",
        "[0x" + "f" * 5000 + "]",
    ],
)
def test_texts_that_hold_no_nested_value(text):
    with pytest.raises(RowError) as refused:
        nested.decoded(text, "k")
    assert refused.value.reason == "wrong_type" and refused.value.message.startswith("k: ")


def test_json_whose_key_comes_twice_is_not_read_as_a_literal():
    with pytest.raises(RowError, match="key 'a' comes twice"):
        nested.decoded('[{"a": 1, "a": 2}]', "k")
