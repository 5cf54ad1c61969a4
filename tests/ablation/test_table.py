"""Table and picture of results made by hand."""

import pytest

from tasks.ablation import drawing, table
from tasks.errors import InputError


def cells(results) -> list[dict[str, str]]:
    titles, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.markdown(table.rows(results)).splitlines()
    ]
    return [dict(zip(titles, line, strict=True)) for line in lines]


def test_the_table_by_hand(make_result) -> None:
    half, most = [1] * 500 + [0] * 500, [1] * 900 + [0] * 100
    results = [make_result("dapo", 0, em=most, commit="def"), make_result("baseline", 0, em=half)]
    results += [make_result("dapo", 1, em=most), make_result("baseline", 1, em=half)]
    baseline, dapo = cells(results)
    # Both seeds alike: each one's interval by question, its arms divided by sqrt(2).
    assert baseline == {
        "arm": "baseline",
        "EM of RL by seed": "0.500, 0.500",
        "EM of RL": "0.500 [0.478, 0.522]",
        "RL - SFT": "+0.000 [-0.002, +0.002]",
        "RL - baseline's RL": "-",
        "verdict": "",
        "EM of 2 hops": "0.000",
        "searches": "1.50",
        "reward, first > last step": "0.250 > 0.750",
        "s a step": "6.5",
        "generations a batch": "1.25",
    }
    assert dapo["EM of RL by seed"] == "0.900, 0.900"
    assert dapo["RL - baseline's RL"] == "+0.400 [+0.378, +0.421]"  # Bonett and Price: .369 to .430
    assert dapo["verdict"] == "better"
    assert dapo["EM of 2 hops"] == "0.800"
    assert table.commits(table.rows(results)) == (
        "not all of one commit, so the code may differ as well: abc baseline, dapo; def dapo"
    )
    assert table.commits(table.rows(results[1:])) == ""


def test_the_verdict_says_what_it_rests_on(make_result) -> None:
    other = make_result("unshuffled", 0, em=[1] * 6)
    found = cells([make_result("baseline", 0), make_result("dapo", 0), make_result("gspo", 1), other])
    assert [row["verdict"] for row in found] == [
        "",
        "no difference shown, on this one seed",
        "no seed in common with the baseline",
        "no difference shown, other questions than the baseline's, on this one seed",
    ]


def test_the_baseline_comes_first_then_the_core_then_the_rest(make_result) -> None:
    given = ["zeta", "turn-credit", "dapo", "alpha", "no-mask", "baseline"]
    assert list(table.by_arm([make_result(arm) for arm in given])) == [
        "baseline", "no-mask", "dapo", "turn-credit", "alpha", "zeta",
    ]  # fmt: skip


def test_without_a_baseline_or_of_two_profiles_nothing_is_compared(make_result) -> None:
    with pytest.raises(InputError, match="no arm 'baseline' to compare with"):
        table.rows([make_result("dapo")])
    with pytest.raises(InputError, match="of several profiles: mine, tiny"):
        table.rows([make_result("baseline"), make_result("dapo", profile="mine")])


def test_each_arm_has_a_panel_with_its_seeds_and_the_baseline_behind(make_result) -> None:
    arms = ["baseline", "no-mask", "dapo", "gspo", "rloo"]
    validations = [{"0": {"em": 0.4, "searches": 1.0}, "10": {"em": em, "searches": 1.0}} for em in (0.8, 0.6)]
    results = [make_result(arm, seed, validation=validations[seed]) for arm in arms for seed in (0, 1)]
    figure = drawing.draw(results)
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in panels] == [f"{arm}  0.70" for arm in arms]
    assert [len(axes.lines) for axes in panels] == [3, 4, 4, 4, 4]  # the seeds, their mean, behind it the baseline's
    behind, *seeds, mean = panels[1].lines
    assert [list(line.get_ydata()) for line in seeds] == [[0.4, 0.8], [0.4, 0.6]]
    for line in (behind, mean):
        assert line.get_xydata().tolist() == [[0, 0.4], [10, pytest.approx(0.7)]]
    labelled = [axes.get_title(loc="left").split()[0] for axes in panels if axes.get_xlabel()]
    assert labelled == ["no-mask", "dapo", "gspo", "rloo"]  # nothing lies below these
