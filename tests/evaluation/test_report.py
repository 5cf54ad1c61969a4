import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from tasks.evaluation import excerpts, metrics
from tasks.evaluation.charts import PANELS, curves, series
from tasks.evaluation.report import p_value, share, signed, write_report

STEPS = [
    {"step": 0, "data": {"val-core/nq/reward/mean@1": 0.2}},
    {"step": 1, "data": {"critic/score/mean": 0.3, "actor/entropy": 1.0, "response_length/mean": 80}},
    {"step": 2, "data": {"critic/score/mean": 0.5, "val-core/nq/reward/mean@1": 0.4, "val-core/hp/reward/mean@1": 0.1}},
]
VOID = {"meta", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """Text, tags and addresses of a page; refuses tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.open, self.tags, self.addresses = "", [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href", "xlink:href", "data"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href", "xlink:href", "data"}]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


@pytest.fixture
def page(tmp_path: Path, trajectories):
    def make(rates: dict[str, float], *, steps: list = STEPS, examples: int = 4, **more) -> tuple[Page, str]:
        frame = trajectories(rates, **more)
        figures = metrics.summarise(frame, confidence=0.95, resamples=200, seed=0)
        path = tmp_path / "report.html"
        write_report(path, figures=figures, frame=frame, steps=steps, examples=examples, profile="tiny")
        html = path.read_text(encoding="utf-8")
        return Page(html), html

    return make


def test_it_stands_alone(page) -> None:
    parsed, html = page({"base": 0.1, "sft": 0.4, "rl": 0.8})
    assert {"script", "link", "img", "iframe"}.isdisjoint(parsed.tags)
    assert all(address.startswith("#") for address in parsed.addresses)
    assert "@import" not in html and "url(http" not in html
    assert parsed.tags.count("svg") == len(PANELS) and parsed.tags.count("article") == 4


def test_it_says_the_figures(page, trajectories) -> None:
    rates = {"base": 0.1, "sft": 0.4, "rl": 0.8}
    figures = metrics.summarise(trajectories(rates), confidence=0.95, resamples=200, seed=0)
    parsed, _ = page(rates)
    words = " ".join(parsed.text.split())
    gain = figures["comparisons"]["rl-sft"]["em"]
    assert f"RL answers {share(figures['models']['rl']['em']['mean'])} % exactly" in words
    assert f"{signed(gain['mean'], True)} points [{signed(gain['low'], True)}, {signed(gain['high'], True)}]" in words
    assert "hops: 2" in words and "source: hotpotqa" in words


def test_an_interval_round_zero_is_called_no_difference(page) -> None:
    parsed, _ = page({"sft": 1.0, "rl": 1.0})
    assert "no difference is shown" in parsed.text


def test_foreign_text_is_escaped(page) -> None:
    parsed, html = page({"sft": 0.4, "rl": 0.8}, passage="<script>alert('x')</script> <b>& the town")
    assert "script" not in parsed.tags
    assert "&lt;script&gt;" in html and "<script>alert('x')</script> <b>& " in parsed.text


def test_absent_metrics_one_model_and_a_graded_success_are_coped_with(page, tmp_path: Path, trajectories) -> None:
    parsed, _ = page({"rl": 0.5}, steps=[], examples=1)
    assert "No step recorded" in parsed.text and "svg" not in parsed.tags and "Paired" not in parsed.text
    frame = trajectories({"sft": 0.4, "rl": 0.8})
    frame["success"] = 0.25
    figures = metrics.summarise(frame, confidence=0.95, resamples=200, seed=0)
    write_report(tmp_path / "r.html", figures=figures, frame=frame, steps=STEPS[:1], examples=1, profile="x")
    html = (tmp_path / "r.html").read_text()
    assert "RL succeeds on 25.0 %" in html and html.count("<svg") == 1


def test_it_is_the_same_from_run_to_run(page) -> None:
    assert page({"sft": 0.4, "rl": 0.8})[1] == page({"sft": 0.4, "rl": 0.8})[1]


def test_charts_never_share_an_id_and_take_the_pages_colours() -> None:
    drawn = [svg for _, svg in curves(STEPS)]
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in drawn]
    clips = [{i for i in found if i.startswith("p")} - {"patch_1", "patch_2", "patch_3"} for found in ids]
    assert all(clips) and len(set.union(*clips)) == sum(map(len, clips))
    assert all("var(--series-0)" in svg and "#0a0b01" not in svg for svg in drawn)


def test_series_take_a_name_or_all_below_a_prefix() -> None:
    assert series(STEPS, PANELS[0]) == {"critic/score/mean": [(1, 0.3), (2, 0.5)]}
    assert series(STEPS, PANELS[1]) == {"nq": [(0, 0.2), (2, 0.4)], "hp": [(2, 0.1)]}


def test_generated_text_is_cut_at_its_blocks() -> None:
    pieces = excerpts.generated_pieces("so <think> a </think>\n<search> b </search>")
    assert [(piece.part, piece.text) for piece in pieces] == [
        ("plain", "so "), ("thought", "<think> a </think>"), ("plain", "\n"), ("query", "<search> b </search>"),
    ]  # fmt: skip


def test_golden_answers_are_marked_as_whole_words() -> None:
    pieces = excerpts.observed_pieces("In Bath. BATH road, bathing. (A+)", ["Bath", "a+", "Bath road"])
    assert [piece.text for piece in pieces if piece.part == "gold"] == ["Bath", "BATH road", "A+"]
    assert "".join(piece.text for piece in pieces) == "In Bath. BATH road, bathing. (A+)"
    assert [piece.part for piece in excerpts.observed_pieces("x", [" "])] == ["plain"]


def test_segments_are_read_as_recorded(trajectories) -> None:
    row = trajectories({"rl": 1.0}, questions=1).iloc[0]
    assert [segment["kind"] for segment in excerpts.segments(row)] == [s["kind"] for s in json.loads(row["segments"])]


def test_examples_come_in_turn_from_every_group() -> None:
    index = ["a", "b", "c", "d", "e"]
    before = pd.DataFrame({"success": [0.0, 0, 1, 1, 0]}, index=index)
    after = pd.DataFrame({"success": [1.0, 1, 0, 1, 0]}, index=index)
    found = excerpts.groups(before, after, ("SFT", "RL"))
    assert [(group.name, group.ids) for group in found] == [
        ("only RL right", ["a", "b"]), ("only SFT right", ["c"]), ("both right", ["d"]), ("both wrong", ["e"]),
    ]  # fmt: skip
    chosen = excerpts.choose(found, 5)
    assert [key for _, key in chosen] == ["a", "b", "c", "d", "e"]
    assert [name for name, _ in chosen] == ["only RL right"] * 2 + ["only SFT right", "both right", "both wrong"]
    assert [key for _, key in excerpts.choose(found, 3)] == ["a", "c", "d"]
    assert excerpts.choose([], 3) == []


def test_numbers_as_they_are_read() -> None:
    assert (share(0.12345), signed(-0.05, True), signed(0.5, False)) == ("12.3", "-5.0", "+0.50")
    assert (p_value(0.0004), p_value(0.04)) == ("p < 0.001", "p = 0.040")
