import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from tasks.agent import protocols
from tasks.evaluation import climb, metrics
from tasks.evaluation.charts import PANELS, curves, series
from tasks.evaluation.report import excerpts
from tasks.evaluation.report.page import write_report
from tasks.evaluation.report.rendering import number, p_value, share, signed
from tasks.params.judging import Report

STEPS = [
    {"step": 0, "data": {"val-core/nq/reward/mean@1": 0.2}},
    {"step": 1, "data": {"episode/score": 0.3, "actor/entropy": 1.0, "response_length/mean": 80}},
    {"step": 2, "data": {"episode/score": 0.5}},
]
VALIDATION = {
    "0": {"one-hop": {"em": 0.9, "searches": 1.0, "n": 10}, "all": {"em": 0.9, "searches": 1.0, "n": 10}},
    "2": {"one-hop": {"em": 1.0, "searches": 1.5, "n": 10}, "all": {"em": 1.0, "searches": 1.5, "n": 10}},
}
VOID = {"meta", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """Text, tags and addresses of a page; refuses tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.open, self.tags, self.addresses, self.classes = "", [], [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href", "xlink:href", "data"}]
        self.classes += [value for name, value in attrs if name == "class"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href", "xlink:href", "data"}]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.text += data


def written(path: Path, frame: pd.DataFrame, figures: dict, *, steps: list = STEPS, examples: int = 1) -> str:
    settings = Report(examples=examples, trajectories=500, audit=0)
    write_report(
        path,
        figures=figures,
        frame=frame,
        steps=steps,
        validation=VALIDATION,
        settings=settings,
        seed=0,
        profile="tiny",
    )
    return path.read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path, trajectories):
    def make(rates: dict[str, float], *, steps: list = STEPS, examples: int = 4, **more) -> tuple[Page, str]:
        frame = trajectories(rates, **more)
        figures = metrics.summarise(frame, confidence=0.95, resamples=200, seed=0)
        path = tmp_path / "report.html"
        html = written(path, frame, figures, steps=steps, examples=examples)
        return Page(html), html

    return make


def test_it_stands_alone(page) -> None:
    parsed, html = page({"base": 0.1, "sft": 0.4, "rl": 0.8})
    assert {"link", "img", "iframe"}.isdisjoint(parsed.tags) and parsed.tags.count("script") == 2
    assert all(address.startswith("#") for address in parsed.addresses)
    assert "@import" not in html and "url(http" not in html
    assert parsed.tags.count("svg") == 1 + len(PANELS) and parsed.tags.count("article") == 4


def test_it_says_the_figures(page, trajectories) -> None:
    rates = {"base": 0.1, "sft": 0.4, "rl": 0.8}
    figures = metrics.summarise(trajectories(rates), confidence=0.95, resamples=200, seed=0)
    parsed, _ = page(rates)
    words = " ".join(parsed.text.split())
    gain = figures["comparisons"]["rl-sft"]["em"]
    assert f"RL answers {share(figures['models']['rl']['em']['mean'])} % exactly" in words
    assert f"{signed(gain['mean'], True)} points [{signed(gain['low'], True)}, {signed(gain['high'], True)}]" in words
    assert "hops: 2" in words and "source: hotpotqa" in words


def test_figures_beyond_the_questions_are_shown_where_there_are_any(tmp_path: Path, trajectories) -> None:
    frame = trajectories({"base": 0.1, "rl": 0.8})
    figures = metrics.summarise(frame, confidence=0.95, resamples=50, seed=0)
    bare = Page(written(tmp_path / "r.html", frame, figures)).text
    assert not any(heading in bare for heading in ("pass@", "General ability", "benchmarks", "repeat", "audit sheet"))
    at = {"mean": 0.5, "low": 0.4, "high": 0.62}
    figures |= {
        "pass_at": {"rl": {"1": at, "8": at}},
        "ability": {
            "n": 300, "models": {"rl": {"accuracy": at}}, "drop": 0.011, "drop_low": -0.022, "drop_high": 0.033
        },
        "outside": {"bench": {"rl": {"em": 0.125, "f1": 61}}},
        "repeat": {"rl": {"answers_sha256": "ab12", "max_num_seqs": 256}},
        "batch_check": {"max-seqs-8": {"questions": 50, "answers_changed": 1, "trajectories_changed": 2}},
        "audit": {"n": 100, "flagged": 7},
    }  # fmt: skip
    words = " ".join(Page(written(tmp_path / "r.html", frame, figures)).text.split())
    for said in (
        "Model pass@1 pass@8 RL 50.0 40.0 to 62.0",
        "300 multiple-choice questions by log-likelihood, in per cent. Lost from base to RL: +1.1 points [-2.2, +3.3].",
        "bench RL em 0.125, f1 61",
        "RL ab12",
        "RL, batches of 8 1 of 50 answers and 2 whole trajectories are others",
        "The 100 with the highest reward are on the audit sheet beside this page, audit.html",
    ):
        assert re.sub(r"\s", "", said) in re.sub(r"\s", "", words)


def test_a_slice_of_each_kind_and_every_figure_has_its_place(page) -> None:
    parsed, _ = page({"sft": 0.4, "rl": 0.8})
    words = " ".join(parsed.text.split())
    assert all(name in words for name in ("hops: 1", "source: nq", "type: bridge"))
    assert all(name in words for name in ("Answered %", "Gold found %", "Tokens written", "Tokens in all"))


def test_an_interval_round_zero_is_called_no_difference(page) -> None:
    parsed, _ = page({"sft": 1.0, "rl": 1.0})
    assert "no difference is shown" in parsed.text


def test_foreign_text_is_escaped(page) -> None:
    parsed, html = page({"sft": 0.4, "rl": 0.8}, passage="<script>alert('x')</script> <b>& the town")
    assert parsed.tags.count("script") == 2  # the page's own: data and viewer
    assert "&lt;script&gt;" in html and "<script>alert('x')</script> <b>& " in parsed.text


def test_absent_metrics_one_model_and_a_graded_success_are_coped_with(page, tmp_path: Path, trajectories) -> None:
    parsed, _ = page({"rl": 0.5}, steps=[], examples=1)
    assert "No step recorded" in parsed.text and parsed.tags.count("svg") == 1 and "Paired" not in parsed.text
    frame = trajectories({"sft": 0.4, "rl": 0.8})
    frame["success"] = 0.25
    figures = metrics.summarise(frame, confidence=0.95, resamples=200, seed=0)
    path = tmp_path / "r.html"
    html = written(path, frame, figures, steps=STEPS[:1])
    assert "RL succeeds on 25.0 %" in html and html.count("<svg") == 1


def test_the_climb_is_drawn_and_counted(page) -> None:
    parsed, _ = page({"sft": 0.4, "rl": 0.8})
    words = " ".join(parsed.text.split())
    assert "the same ones each time: 10 one-hop. Step 0" in words
    assert "one-hop 1.00" in words and "one-hop 1.5" in words


def test_an_example_says_first_what_was_searched_and_answered(page) -> None:
    parsed, _ = page({"sft": 0.0, "rl": 1.0}, examples=1)
    words = " ".join(parsed.text.split())
    assert "Before and after: SFT and RL" in words
    # Person1: the first of the questions with two hops.
    assert words.index("Person1→Hut") < words.index("Person1→Town")


def test_an_episode_without_search_and_answer_says_so(tmp_path: Path, trajectories) -> None:
    frame = trajectories({"sft": 0.0, "rl": 1.0})
    silent = frame["model"] == "sft"
    frame.loc[silent, "calls"] = "[]"
    frame.loc[silent, "answer"] = None
    figures = metrics.summarise(frame, confidence=0.95, resamples=200, seed=0)
    path = tmp_path / "r.html"
    html = written(path, frame, figures)
    text = " ".join(Page(html).text.split())
    assert "no call→no answer" in text and "nan" not in text.lower()


def test_it_is_the_same_from_run_to_run(page) -> None:
    assert page({"sft": 0.4, "rl": 0.8})[1] == page({"sft": 0.4, "rl": 0.8})[1]


def test_charts_never_share_an_id_and_take_the_pages_colours() -> None:
    drawn = [climb.svg(VALIDATION), *(svg for _, svg in curves(STEPS))]
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in drawn]
    clips = [{i for i in found if re.fullmatch("p[0-9a-f]{8,}", i)} for found in ids]
    assert all(clips) and len(set.union(*clips)) == sum(map(len, clips))
    assert all("var(--series-0)" in svg and "#0a0b01" not in svg for svg in drawn)


def test_a_series_takes_the_steps_that_have_its_metric() -> None:
    assert series(STEPS, "episode/score") == [(1, 0.3), (2, 0.5)]
    assert series(STEPS, "actor/entropy") == [(1, 1.0)]
    assert [title for title, _ in curves(STEPS[2:])] == ["Reward of the rollouts"]


def test_generated_text_is_cut_at_its_blocks() -> None:
    pieces = excerpts.generated_pieces("so <think> a </think>\n<search> b </search>")
    assert [(piece.part, piece.text) for piece in pieces] == [
        ("plain", "so "), ("thought", "<think> a </think>"), ("plain", "\n"), ("query", "<search> b </search>"),
    ]  # fmt: skip


def test_blocks_of_every_protocol_are_cut_and_marks_of_the_chat_set_apart() -> None:
    text = '<fact> a [1] </fact>\n<tool_call>\n{"name": "x"}\n</tool_call><|im_end|>\n<sum> 1 + 1 </sum>'
    assert [(piece.part, piece.text) for piece in excerpts.generated_pieces(text, {"sum"})] == [
        ("fact", "<fact> a [1] </fact>"), ("plain", "\n"),
        ("query", '<tool_call>\n{"name": "x"}\n</tool_call>'), ("mark", "<|im_end|>"), ("plain", "\n"),
        ("query", "<sum> 1 + 1 </sum>"),
    ]  # fmt: skip
    framed = excerpts.observed_pieces("<|im_start|>tool\nIn Bath<|im_end|>", ["Bath"])
    assert [(piece.part, piece.text) for piece in framed] == [
        ("mark", "<|im_start|>tool\n"), ("plain", "In "), ("gold", "Bath"), ("mark", "<|im_end|>"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", list(protocols.PROTOCOLS))
def test_what_a_protocol_writes_has_its_colours(name: str) -> None:
    protocol = protocols.create(name, ["search"])
    turns = protocol.search("Ada", "hm") + protocol.fact("Ada is.", [1]) + protocol.answer("Ada", sources=[1])
    parts = [piece.part for piece in excerpts.generated_pieces(turns) if piece.part != "plain"]
    assert parts == ["thought", "query", *(["fact"] if protocol.cites else []), "answer"]


def test_a_trajectory_with_everything_in_it_is_shown(tmp_path: Path, trajectories) -> None:
    frame = everything(trajectories)
    figures = metrics.summarise(frame, confidence=0.95, resamples=200, seed=0, cites=True)
    path = tmp_path / "r.html"
    html = written(path, frame, figures)
    parsed = Page(html)
    words = " ".join(parsed.text.split())
    assert "Person1 timeout→sum: 1 + 1→sum: 2 + 2→Town" in words
    assert "1 fact · cites p, a passage never shown · precision 50.0 %" in words
    assert {"segment notice", "segment user", "segment observation", "segment generated"} <= set(parsed.classes)
    # The answer that the user sent back is not coloured as the one that counts.
    assert [name for name in parsed.classes if name.startswith(("answer", "earlier"))][-3:] == [
        "answer good", "earlier", "answer good",
    ]  # fmt: skip
    assert "Citation precision %" in words and "failed calls: timeout 0 40" in words
    assert "ended by answer 40 40" in words and "copied examples 0 40" in words and "forced" not in words


def everything(trajectories) -> pd.DataFrame:
    """Trajectories whose second model's have segments of every kind, failed calls, facts and citations."""
    frame = trajectories({"sft": 0.0, "rl": 1.0})
    rl = frame["model"] == "rl"
    said = [
        ("generated", "<think> hm </think>\n<search> Person1 </search>"),
        ("observation", "\n<information> Error: it took too long.</information>\n"),
        ("generated", "So"),
        ("notice", "\nThat asked for nothing. End a turn with <search> ... </search>.\n"),
        ("generated", "<fact> Person1 was born in Town. [1] </fact>\n<answer> Hut [1] </answer><|im_end|>"),
        ("user", "<|im_start|>user\nThat is not right. Look again.<|im_end|>\n<|im_start|>assistant\n"),
        ("generated", "<sum> 1 + 1 </sum>"),
        ("observation", "\n<information> Doc 1 (Title: Person1) Born in Town.\n</information>\n"),
        ("generated", "<answer> Town [1][9] </answer>"),
    ]
    asked = [("search", "Person1", "timeout"), ("sum", "1 + 1", None), ("sum", '{"expression": "2 + 2"}', None)]
    segments = [{"kind": kind, "text": text, "tokens": 9, "mask": int(kind == "generated")} for kind, text in said]
    calls = [{"tool": t, "arguments": a, "seconds": 0.1, "failure": f} for t, a, f in asked]
    frame.loc[rl, "segments"], frame.loc[rl, "calls"] = json.dumps(segments), json.dumps(calls)
    frame.loc[rl, "facts"] = json.dumps([{"text": "Person1 was born in Town.", "sources": ["p"]}])
    frame["cited"] = [["p", None] if of == "rl" else [] for of in frame["model"]]
    frame.loc[rl, ["citation_precision", "citation_recall"]] = 0.5
    frame.loc[~rl, "citation_recall"] = 0.0
    frame.loc[rl, "copied_example"] = True
    return frame


def test_golden_answers_are_marked_as_whole_words() -> None:
    pieces = excerpts.observed_pieces("In Bath. BATH road, bathing. (A+)", ["Bath", "a+", "Bath road"])
    assert [piece.text for piece in pieces if piece.part == "gold"] == ["Bath", "BATH road", "A+"]
    assert "".join(piece.text for piece in pieces) == "In Bath. BATH road, bathing. (A+)"
    assert [piece.part for piece in excerpts.observed_pieces("x", [" "])] == ["plain"]


def test_segments_are_read_as_recorded(trajectories) -> None:
    row = trajectories({"rl": 1.0}, questions=1).iloc[0]
    assert [segment["kind"] for segment in excerpts.segments(row)] == [s["kind"] for s in json.loads(row["segments"])]


def table(success: dict[str, float], sources: str = "", hops: dict[str, int] | None = None) -> pd.DataFrame:
    """Trajectories as far as `groups` reads them; one letter of `sources` a question."""
    return pd.DataFrame(
        {
            "success": success,
            "data_source": dict(zip(success, sources or "x" * len(success), strict=True)),
            "hops": {key: (hops or {}).get(key, 1) for key in success},
        }
    )


def test_groups_hold_every_question_once_hardest_first() -> None:
    before = table(dict.fromkeys("abcdef", 0.0) | {"f": 1.0}, sources="xyyyyy", hops=dict.fromkeys("abc", 2))
    after = table({"a": 1.0, "b": 1, "c": 1, "d": 1, "e": 0, "f": 0})
    found = excerpts.groups(before, after, ("SFT", "RL"))
    assert [(group.name, group.ids) for group in found] == [
        ("only RL right", ["b", "c", "a", "d"]), ("only SFT right", ["f"]), ("both right", []), ("both wrong", ["e"]),
    ]  # fmt: skip


def test_half_of_the_examples_show_what_was_learnt() -> None:
    found = [excerpts.Group(name, list(ids)) for name, ids in (("L", "abcde"), ("F", "fg"), ("R", "r"), ("W", "wx"))]

    def chosen(count: int) -> str:
        return "".join(key for _, key in excerpts.choose(found, count))

    assert [chosen(count) for count in (1, 3, 6)] == ["a", "abf", "abcfrw"]
    assert chosen(9) == "abcdefgrw" and chosen(100) == "abcdefgrwx"
    found[0] = excerpts.Group("L", ["a"])
    assert chosen(6) == "afgrwx"
    assert excerpts.choose(found, 2) == [("L", "a"), ("F", "f")]
    assert excerpts.choose([], 3) == []


def test_numbers_as_they_are_read() -> None:
    assert (share(0.12345), signed(-0.05, True), signed(0.5, False)) == ("12.3", "-5.0", "+0.50")
    assert (signed(-0.5, False), signed(1234.5, False), signed(0.0, False)) == ("-0.50", "+1,234", "+0.00")
    assert [number(value) for value in (0.126, 99.996, 123.45, 1234.5)] == ["0.13", "100.00", "123.5", "1,234"]
    assert (p_value(0.0004), p_value(0.04)) == ("p < 0.001", "p = 0.040")
