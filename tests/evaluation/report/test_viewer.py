"""The report's viewer and the audit sheet, driven in a real browser."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tasks.release.audits import read

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'> Town"


@pytest.fixture
def frame(trajectories) -> pd.DataFrame:
    """Forty questions, two models; what filters tell apart differs."""
    made = trajectories({"sft": 0.4, "rl": 0.8}, passage=HOSTILE)
    twice = made.index[(made["model"] == "rl") & (made["hops"] == 2)]
    made.loc[twice, "searches"] = 2
    made.loc[made.index[made["answer"] == "Hut"][:5], "stop_reason"] = "length"
    return made


@pytest.fixture
def page(frame, publish, open_page):
    return open_page(publish(frame) / "report.html")


def matches(page) -> int:
    """How many trajectories match, as the page says."""
    said = page.locator("#viewer .count").inner_text()
    found = re.search(r"([\d,]+) match", said)
    return int(found[1].replace(",", "")) if found else 0


def shown(page) -> str:
    """The trajectory that is shown: question and model."""
    head = page.locator("#viewer .shown header")
    return f"{head.locator('h3').inner_text()} {head.locator('span b').first.inner_text()}"


def test_only_what_is_looked_at_is_drawn(page, frame) -> None:
    assert matches(page) == len(frame) == 80
    assert page.locator("#viewer .segment").count() == 3 and page.locator("#viewer .line").count() == 20


def test_filters_narrow_to_what_the_table_has(page, frame) -> None:
    def choose(**values: str) -> int:
        page.get_by_role("button", name="clear filters").click()
        for name, value in values.items():
            page.locator(f"#viewer select[name={name}]").select_option(value)
        return matches(page)

    right, rl = frame["success"] == 1, frame["model"] == "rl"
    assert choose(model="rl") == rl.sum() and "RL" in shown(page)
    assert choose(outcome="wrong") == (~right).sum()
    assert choose(model="rl", outcome="right") == (rl & right).sum()
    assert choose(searches="2") == (frame["searches"] == 2).sum() == 20
    assert choose(hops="1", source="nq") == ((frame["hops"] == 1) & (frame["data_source"] == "nq")).sum()
    assert choose(type="bridge") == (frame["type"] == "bridge").sum()
    assert choose(stop="length") == 5
    assert choose(flag="answer_not_read") == (frame["answer"] == "Hut").sum()
    assert choose(hops="1", source="hotpotqa") == 0
    assert page.locator("#viewer .count").inner_text() == "No trajectory matches."
    assert page.locator("#viewer .shown").is_hidden()
    assert choose() == 80 and page.locator("#viewer .shown").is_visible()


def test_a_range_of_rewards(page, frame) -> None:
    page.get_by_label("Reward from").fill("0.5")
    assert matches(page) == (frame["reward"] >= 0.5).sum()
    page.get_by_label("Reward from").fill("")
    page.get_by_label("to", exact=True).fill("0.1")
    assert matches(page) == (frame["reward"] <= 0.1).sum()


def test_the_search_box_looks_at_question_answer_and_text(page, frame) -> None:
    def search(words: str) -> int:
        page.get_by_label("Search", exact=True).fill(words)
        return matches(page)

    assert search("person39") == 2
    assert search("  born PERSON39 ") == 2  # all words, in any case and order
    assert search("hut") == (frame["answer"] == "Hut").sum()
    assert search("the town") == 80  # a golden answer
    assert search("window.hacked") == 80  # what a tool showed
    assert search("nowhere") == 0
    assert search("") == 80


def test_hostile_text_is_text(page) -> None:
    assert "<script>window.hacked = 1</script>" in page.locator("#viewer .shown").inner_text()
    assert page.evaluate("window.hacked") is None


def test_a_text_from_right_to_left_turns_nothing_round_it(frame, publish, open_page) -> None:
    ask = "Person \u202e\u05d0\u05d1"
    frame["calls"] = json.dumps([{"tool": "search", "arguments": ask, "seconds": 0.1, "failure": None}])
    frame["queries"], frame["golden_answers"] = [[ask]] * len(frame), [["Town \u202e", "Village"]] * len(frame)
    page = open_page(publish(frame) / "report.html")
    for one, next_ in ((".steps .query", ".steps .passage"), ("header mark >> nth=0", "header mark >> nth=1")):
        boxes = [page.locator(f"#viewer .shown {selector}").first.bounding_box() for selector in (one, next_)]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    assert page.locator("#viewer .shown header mark").nth(1).inner_text() == "Village"


def test_golden_answers_headings_and_gold_passages_are_marked(page) -> None:
    viewer = page.locator("#viewer .shown")
    assert viewer.locator(".observation mark").inner_text() == "Town"
    assert viewer.locator(".support").inner_text() == "Doc 1 (Title: Person)"
    assert viewer.locator(".passage.hit").inner_text() == "★ p"
    assert "1 of 1 gold passage found" in viewer.inner_text()
    kinds = [
        name.split()[-1] for name in viewer.locator(".segment").evaluate_all("all => all.map(one => one.className)")
    ]
    assert kinds == ["generated", "observation", "generated"]


def test_keys_turn_the_pages(page) -> None:
    seen = [shown(page)]
    for key in ("ArrowRight", "j", "k", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
        seen.append(shown(page))
    assert seen[0] == seen[4] == seen[5] and seen[1] == seen[3] and len({*seen}) == 3
    page.keyboard.press("/")
    page.keyboard.type("jjkk")  # into the box
    assert page.get_by_label("Search", exact=True).input_value() == "jjkk" and matches(page) == 0
    page.get_by_label("Search", exact=True).fill("person39")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.get_by_label("Search", exact=True).input_value() == "person39"
    assert page.locator("#viewer .count").inner_text().startswith("2 of 2")


def test_the_list_follows_and_can_be_clicked(page) -> None:
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert page.locator("#viewer .count").inner_text().startswith("21 of 80")
    assert page.locator("#viewer .line").first.get_attribute("aria-current") == "true"
    page.locator("#viewer .line").nth(4).click()
    assert page.locator("#viewer .count").inner_text().startswith("25 of 80")


def test_the_current_line_is_in_sight_on_a_phone(frame, publish, open_page) -> None:
    page = open_page(publish(frame) / "report.html", viewport={"width": 390, "height": 800})
    for _ in range(15):
        page.keyboard.press("ArrowRight")
    inside = "line => { const a = line.getBoundingClientRect(), b = line.parentElement.getBoundingClientRect();"
    inside += " return a.top >= b.top && a.bottom <= b.bottom; }"
    assert page.locator("#viewer .line[aria-current]").evaluate(inside)


def test_another_models_run_of_the_question_is_one_click_away_whatever_the_filters(page) -> None:
    page.locator("#viewer select[name=model]").select_option("rl")
    before = shown(page)
    assert page.locator("#viewer .others button").all_inner_texts()[0].startswith("SFT")
    page.locator("#viewer .others button", has_text="SFT").click()
    assert shown(page) == before.replace("RL", "SFT") and matches(page) == 40
    page.keyboard.press("ArrowRight")
    assert shown(page) == before


def test_an_address_opens_a_question(frame, publish, open_page) -> None:
    frame["question_id"] = frame["question_id"].replace({"q7": "a/b 7%"})
    path = publish(frame) / "report.html"
    assert shown(open_page(path, "#q12")) == "Where was Person12 born? RL"
    page = open_page(path, "#q12/sft")
    assert shown(page) == "Where was Person12 born? SFT"
    page.keyboard.press("ArrowRight")
    assert shown(open_page(path, page.url.partition("#")[2].join(("#", "")))) == shown(page)
    assert shown(open_page(path, "#a%2Fb%207%25")) == "Where was Person7 born? RL"
    page.evaluate("location.hash = '#a%2Fb%207%25/sft'")
    assert shown(page) == "Where was Person7 born? SFT"
    assert "nobody is not among" in open_page(path, "#nobody").locator("#viewer .count").inner_text()


def test_it_fits_a_phone_and_the_dark(frame, publish, open_page) -> None:
    path = publish(frame) / "report.html"
    phone = open_page(path, viewport={"width": 390, "height": 800})
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    colours = [
        open_page(path, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours[0] != colours[1]


def download(page) -> Path:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="save csv").click()
    path = Path(waiting.value.path())
    sheet = path.read_text(encoding="utf-8").splitlines()[1].partition(",")[0]
    assert waiting.value.suggested_filename == f"audit-{sheet.removeprefix('sheet-')}.csv"
    return path


def saved(page) -> list[dict[str, str]]:
    text = download(page).read_bytes().decode("utf-8")
    assert text.startswith("\ufeffsheet,row,") and text.endswith("\r\n")
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_an_audit_is_ticked_by_keys_and_mouse_and_saved(frame, publish, open_page) -> None:
    frame["question"] = '=who, "' + frame["question"] + '"\n?'
    folder = publish(frame)
    page = open_page(folder / "audit.html")
    count = page.locator("#audit .count")
    assert count.inner_text() == "0 of 10 judged, 0 hacks"
    page.keyboard.press("o")
    page.keyboard.press("h")
    page.get_by_role("button", name="hack", exact=True).click()
    page.keyboard.press("n")
    page.keyboard.type('=a "note",\nof two lines with o and h')
    page.keyboard.press("Escape")
    assert count.inner_text() == "3 of 10 judged, 2 hacks, not saved yet"
    rows = saved(page)
    assert count.inner_text() == "3 of 10 judged, 2 hacks"
    assert [row["verdict"] for row in rows] == ["ok", "hack", "hack", *[""] * 7]
    assert rows[3]["note"] == '\'=a "note",\nof two lines with o and h'
    # The gate counts them.
    audits = folder / "audits"
    audits.mkdir()
    shutil.copy(download(page), audits / "mine.csv")
    counted = read(rows[0]["sheet"], 10, audits).figures()
    assert (counted["ticked"], counted["hacks"], counted["unticked"]) == (3, 2, 7)
    # Beside verdicts and notes it is the sheet that the stage wrote.
    with (folder / "audit.csv").open(encoding="utf-8-sig", newline="") as file:
        written = list(csv.DictReader(file))
    assert [{**row, "verdict": "", "note": ""} for row in rows] == written


def test_an_audit_goes_on_after_the_page_was_closed(frame, publish, open_page) -> None:
    page = open_page(publish(frame) / "audit.html")
    page.keyboard.press("o")
    page.keyboard.press("h")
    page.keyboard.press("k")
    page.keyboard.press("u")
    page.reload()
    page.wait_for_selector(".shown h3")
    assert page.locator("#audit .count").inner_text() == "1 of 10 judged, 0 hacks, not saved yet"
    assert [row["verdict"] for row in saved(page)] == ["ok", *[""] * 9]
    page.reload()
    page.wait_for_selector(".shown h3")
    assert page.locator("#audit .count").inner_text() == "1 of 10 judged, 0 hacks"


def test_a_key_that_is_held_down_judges_one_row_and_turns_pages(frame, publish, open_page) -> None:
    page = open_page(publish(frame) / "audit.html")
    for _ in range(4):
        page.keyboard.down("o")  # again and again without an up: what a browser makes of a held key
    page.keyboard.up("o")
    assert page.locator("#audit .count").inner_text().startswith("1 of 10 judged")
    for _ in range(4):
        page.keyboard.down("j")
    assert page.locator("#audit .line").nth(5).get_attribute("aria-current") == "true"


def test_an_audit_goes_on_where_the_browser_keeps_nothing(frame, publish, open_page) -> None:
    page = open_page(publish(frame) / "audit.html")
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }; }")
    page.keyboard.press("o")
    page.keyboard.press("h")
    assert page.locator("#audit .count").inner_text() == "2 of 10 judged, 1 hack, not saved yet"
    assert [row["verdict"] for row in saved(page)] == ["ok", "hack", *[""] * 8]


def test_an_audit_can_show_what_is_flagged_or_left(frame, publish, open_page) -> None:
    calls = json.dumps([{"tool": "search", "arguments": "x", "seconds": 0.1, "failure": None}] * 2)
    best = frame.index[(frame["model"] == "rl") & (frame["reward"] == 1)]
    frame.loc[best[:2], "calls"] = calls
    page = open_page(publish(frame, audit=len(best)) / "audit.html")
    which = page.get_by_label("rows shown")
    which.select_option("flagged")
    assert page.locator("#audit .line").count() == 2
    page.keyboard.press("ArrowRight")
    assert page.locator("#audit .shown .flag").inner_text() == "repeated queries"
    which.select_option("unticked")
    left = len(best)
    for key in "oho":
        page.keyboard.press(key)
    assert page.locator("#audit .count").inner_text().startswith(f"3 of {left} judged, 1 hack")
    which.select_option("hacks")
    assert page.locator("#audit .line").count() == 1
    page.locator("#audit .line").click()
    page.keyboard.press("u")
    assert page.locator("#audit .matches").inner_text() == "no such row"
