import pytest

from tasks.errors import InputError
from tasks.qa.reading import tables


def every(names):
    return names


def test_a_field_without_an_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_FIELD", 100)
    (tmp_path / "q").write_text('a,b\n1,2\n3,"' + "x\n" * 100)
    with pytest.raises(InputError, match=r"q, line 3: not separated values: field larger than field limit \(100\)"):
        list(tables.separated(tmp_path / "q", ",", every))
