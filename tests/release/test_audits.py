import csv
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.evaluation.audit.sheet import Sheet
from tasks.release import audits

SHEET = "sheet-0123456789ab"
COLUMNS = ("sheet", "row", "question_id", "question", "verdict", "note")


def written(rows, *, delimiter=",", end="\r\n", columns=COLUMNS):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def row(number, verdict, sheet=SHEET, question="Who, where; and\nwhen?"):
    return (sheet, number, f"q{number}", question, verdict, "")


def put(folder, name, text, encoding="utf-8"):
    (folder / name).write_bytes(text.encode(encoding))


def figures(folder, n=4):
    return audits.read(SHEET, n, folder).figures()


def test_nobody_has_ticked(tmp_path):
    assert figures(tmp_path) == {"n": 4, "ticked": 0, "unticked": 4, "hacks": 0, "hack_share": None, "disputed": 0}


def test_the_sheet_that_the_evaluation_writes_is_read_once_it_is_filled_in(tmp_path):
    answers = ["=1+1", 'Köln; oder, "Bonn"?\nja', None]
    frame = pd.DataFrame(
        {"question_id": ["12e5", "-2", "q"], "model": "rl", "question": "Who?", "golden_answers": [["a", "b"]] * 3}
    ).assign(answer=answers, reward=1.0)
    sheet = Sheet(SHEET, frame, [["repeated_queries"], [], []])
    sheet.write(tmp_path / "audit.csv")
    assert figures(tmp_path, n=3)["unticked"] == 3
    with (tmp_path / "audit.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for filled, verdict in zip(rows, ["ok", "hack", ""], strict=True):
        filled["verdict"] = verdict
    put(tmp_path, "audit.csv", written([one.values() for one in rows], columns=rows[0], delimiter=";"))
    audit = audits.read(sheet.figures()["sheet"], sheet.figures()["n"], tmp_path)
    assert audit.verdicts == {1: "ok", 2: "hack"}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_what_spreadsheets_make_of_a_sheet_is_read(tmp_path, delimiter, end, encoding):
    rows = [row(1, "ok"), row(2, " HACK "), row(3, ""), row(4, "Ok"), ("",) * 6]
    put(tmp_path, "one.csv", written(rows, delimiter=delimiter, end=end), encoding)
    assert figures(tmp_path) == {
        "n": 4, "ticked": 3, "unticked": 1, "hacks": 1, "hack_share": pytest.approx(1 / 3), "disputed": 0,
    }  # fmt: skip


def test_empty_cells_at_the_end_of_a_row_may_be_left_out(tmp_path):
    rows = [row(1, "ok")[:-1], row(2, "")[:-2], row(3, "hack"), row(4, "")]
    put(tmp_path, "one.csv", written(rows))
    assert audits.read(SHEET, 4, tmp_path).verdicts == {1: "ok", 3: "hack"}


@pytest.mark.parametrize("name", ["one.xlsx", "one.txt", "ann", "ann.csv", "gone.csv"])
def test_what_is_no_csv_file_is_not_overlooked(tmp_path, name):
    if name.startswith("ann"):
        (tmp_path / name).mkdir()
    elif name.startswith("gone"):
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    else:
        put(tmp_path, name, "PK")
    with pytest.raises(InputError, match=f"{name}: no CSV file; save the sheet as CSV"):
        figures(tmp_path)


def test_capitals_links_and_hidden_files(tmp_path):
    put(tmp_path, "._one.csv", "no sheet")
    put(tmp_path, ".~lock.one.csv#", "no sheet")
    put(tmp_path, ".whole", written([row(1, "ok")]))
    (tmp_path / "ONE.CSV").symlink_to(tmp_path / ".whole")
    assert figures(tmp_path)["ticked"] == 1


def test_columns_in_another_order_and_case_are_read(tmp_path):
    put(tmp_path, "one.csv", written([("ok", "1", SHEET)], columns=("Verdict", "ROW", " Sheet ")))
    assert figures(tmp_path)["ticked"] == 1


def test_of_several_people_one_who_says_hack_is_enough(tmp_path):
    put(tmp_path, "a.csv", written([row(1, "hack"), row(2, "ok"), row(3, "ok")]))
    put(tmp_path, "b.csv", written([row(1, "ok"), row(2, "hack"), row(3, "ok"), row(4, "")]))
    put(tmp_path, "README.md", "no sheet")
    audit = audits.read(SHEET, 4, tmp_path)
    assert audit.verdicts == {1: "hack", 2: "hack", 3: "ok"}
    assert audit.disputed == {1, 2}
    assert audit.figures() == {
        "n": 4, "ticked": 3, "unticked": 1, "hacks": 2, "hack_share": pytest.approx(2 / 3), "disputed": 2,
    }  # fmt: skip


def test_ticks_on_another_sheet_are_not_counted_and_are_named(tmp_path):
    put(tmp_path, "old.csv", written([row(number, "hack", "sheet-old") for number in range(1, 90)]))
    put(tmp_path, "new.csv", written([row(1, "ok")]))
    audit = audits.read(SHEET, 4, tmp_path)
    assert audit.verdicts == {1: "ok"}
    assert audit.others == {str(tmp_path / "old.csv"): 89}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (written([row(1, "ok"), row(2, "fine")]), "one.csv, row 3: no such verdict: 'fine'; write ok or hack, or no"),
        (written([row(5, "ok")]), "one.csv, row 2: no row '5' on a sheet of 4"),
        (written([row(0, "ok")]), "one.csv, row 2: no row '0'"),
        (written([row("1.5", "ok")]), "one.csv, row 2: no row '1.5'"),
        (written([row("q", "ok")]), "one.csv, row 2: no row 'q'"),
        (written([(*row(1, "ok"), "", "")]), "one.csv, row 2: 8 cells under 6 columns"),
        (written([], columns=("sheet", "row", "question")), "one.csv: no column 'verdict'; fill in the sheet"),
        ("", "one.csv: no column 'sheet'"),
        (written([row(1, "ok")]) + '"open', "one.csv, line 4: not CSV: unexpected end of data"),
    ],
)
def test_what_is_wrong_names_file_and_row(tmp_path, text, said):
    put(tmp_path, "one.csv", text)
    with pytest.raises(InputError) as caught:
        audits.read(SHEET, 4, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/{said}")


def test_another_encoding_is_refused(tmp_path):
    put(tmp_path, "one.csv", written([row(1, "ok", question="Wo liegt Köln?")]), "latin-1")
    with pytest.raises(InputError, match=r"one\.csv: not UTF-8: .*; save it as CSV in UTF-8"):
        audits.read(SHEET, 4, tmp_path)


@given(st.text(max_size=200) | st.text(max_size=80).map(lambda rest: written([row(1, "ok")]) + rest))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("audits")
    (folder / "any.csv").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = figures(folder)
    except InputError:
        return
    assert found["ticked"] + found["unticked"] == 4
