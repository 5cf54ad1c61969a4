import gzip

import pytest

from tasks.errors import InputError
from tasks.qa.reading import opening


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "LONGEST_LINE", 100)
    (tmp_path / "q").write_text('{"a": 1}\n' + "[" * 100)
    with pytest.raises(InputError, match=r"q, line 2: longer than 100 bytes"):
        list(opening.lines(tmp_path / "q"))


@pytest.mark.parametrize("name", ["q", "q.gz"])
def test_lines_of_plain_and_packed_files(tmp_path, name):
    content = b"\xef\xbb\xbf1\r\n\n3"
    (tmp_path / name).write_bytes(gzip.compress(content) if name == "q.gz" else content)
    assert list(opening.lines(tmp_path / name)) == [(1, b"1\r\n"), (2, b"\n"), (3, b"3")]


def test_the_hash_of_a_file(tmp_path):
    (tmp_path / "q").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    assert opening.sha256(tmp_path / "q") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
