"""What the charts share; the charts themselves are tested where they are drawn."""

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tasks.evaluation import charts


def test_names_at_the_lines_ends_stay_clear_of_each_other_and_in_order() -> None:
    assert charts.spread([0.1, 0.5], 0.1, 1.0) == [0.1, 0.5]
    assert charts.spread([0.5, 0.5, 0.52], 0.1, 1.0) == pytest.approx([0.5, 0.6, 0.7])
    assert charts.spread([1.0, 0.9, 0.92], 0.1, 1.0) == pytest.approx([1.0, 0.8, 0.9])


def test_each_name_has_its_lines_colour_and_height() -> None:
    axes = Figure().add_subplot()
    axes.plot([0, 1], [0.0, 1.0], color="#112233")
    axes.plot([0, 1], [1.0, 0.0], color="#445566")
    charts.name_lines(axes, ["up", "down"])
    found = [(text.get_text(), text.get_color(), text.xy[1]) for text in axes.texts]
    assert found == [("up", "#112233", 1.0), ("down", "#445566", 0.0)]


def test_pictures_have_the_light_colours_of_the_page() -> None:
    page = (Path(charts.__file__).parent / "report/page.css").read_text()
    light = page[: page.index("prefers-color-scheme: dark")]
    assert tuple(re.findall(r"--series-\d: (#\w+)", light)) == charts.LIGHT.series
    assert re.findall(r"--line: (#\w+)", light) == [charts.LIGHT.line]


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pictures/a.png"
    charts.write_png(Figure((1, 1)), path)
    before = path.read_bytes()
    assert before.startswith(b"\x89PNG")

    def fails(self: Figure, aside: Path, **settings: object) -> None:
        aside.write_bytes(b"half")
        raise OSError

    monkeypatch.setattr(Figure, "savefig", fails)
    with pytest.raises(OSError):  # noqa: PT011  our own
        charts.write_png(Figure((1, 1)), path)
    assert path.read_bytes() == before
