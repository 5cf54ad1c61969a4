"""What can be at a path instead of a file: each is called what it is."""

import os
import tempfile
from pathlib import Path

import pytest

from tasks.errors import InputError


def test_a_missing_file_says_where_it_was_looked_for(tmp_path, read):
    (tmp_path / "train.jsonl").write_bytes(b"{}")
    with pytest.raises(InputError, match=r"trian\.jsonl: no such file; did you mean 'train\.jsonl'\?"):
        read("jsonl", "trian.jsonl")
    with pytest.raises(InputError, match=rf"q: no such file; looked in {tmp_path}, which holds train\.jsonl"):
        read("jsonl", "q")
    with pytest.raises(InputError, match=rf"no such file; there is no folder {tmp_path}/none either"):
        read("jsonl", "none/q.jsonl")


@pytest.mark.parametrize("reader", ["jsonl", "parquet", "csv", "hotpotqa"])
def test_what_is_no_regular_file_is_called_what_it_is(tmp_path, read, reader):
    path = tmp_path / f"q.{ {'hotpotqa': 'json'}.get(reader, reader) }"
    path.symlink_to(path.name)
    with pytest.raises(InputError, match="is a link that leads back to itself; name the file itself"):
        read(reader, path)
    path.unlink()
    path.symlink_to("gone")
    with pytest.raises(InputError, match="is a link to gone, where nothing is; name the file itself"):
        read(reader, path)
    path.unlink()
    path.symlink_to("/dev/null")
    with pytest.raises(InputError, match="is a device, not a file; write what it gives to a file"):
        read(reader, path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="is a named pipe, not a file"):
        read(reader, path)


@pytest.fixture
def locked(tmp_path):
    """A folder with a file, without any permission; it is nobody's, for root may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "q.jsonl").write_bytes(b"{}")
            Path(name).chmod(0)
            yield Path(name)
            Path(name).chmod(0o700)
    finally:
        os.seteuid(user)


def test_a_folder_without_permission_is_said_to_be_one(locked, read):
    with pytest.raises(InputError, match=f"q.jsonl: can't be read: no permission; .*enter the folder {locked}"):
        read("jsonl", locked / "q.jsonl")
    with pytest.raises(InputError, match=f"{locked}.jsonl: no such file"):
        read("jsonl", f"{locked}.jsonl")
    locked.chmod(0o100)  # may be entered, not listed
    told = rf"p\.jsonl: no such file; looked in {locked}, which can't be listed: Permission denied"
    with pytest.raises(InputError, match=told):
        read("jsonl", locked / "p.jsonl")
    with pytest.raises(InputError, match="is a folder, not a file; name a file; it can't be listed"):
        read("passages", locked)
    (locked / "q.jsonl").chmod(0)
    with pytest.raises(InputError, match="can't be read: no permission"):
        read("jsonl", locked / "q.jsonl")


@pytest.mark.parametrize("reader", ["jsonl", "parquet", "csv", "hotpotqa"])
def test_a_folder_is_no_file(tmp_path, read, reader):
    suffix = {"hotpotqa": "json"}.get(reader, reader)
    (tmp_path / f"q.{suffix}").mkdir()
    (tmp_path / f"q.{suffix}" / "part-0").touch()
    with pytest.raises(InputError, match="is a folder, not a file; name a file; it holds part-0"):
        read(reader, f"q.{suffix}")


@pytest.mark.parametrize("reader", ["jsonl", "parquet", "csv", "hotpotqa"])
@pytest.mark.parametrize("path", ["a" * 5000, "a" * 5000 + "/q", "q\0"])
def test_a_path_that_no_file_can_have(read, reader, path):
    ending = {"hotpotqa": "json"}.get(reader, reader)
    with pytest.raises(InputError, match=r"can't be read: File name too long|no path that a file can have"):
        read(reader, f"{path}.{ending}")
