"""Verdicts, and what calibrates false positives."""

import pytest
import report_world

from covad.inference.verdict import Verdict
from covad.report.formats.latex import latex_text
from covad.report.names import point_label, shown_reason
from covad.report.paper import tables as paper
from covad.report.tables import closure as closure_tables
from covad.toys.truths import point_name, point_text


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def verdict_table(evidence):
    return closure_tables.verdict_table(evidence.summary, paper.spread)


@pytest.mark.parametrize(
    ("verdict", "word", "good"),
    [
        (Verdict.CLOSES, "closes", True),
        (Verdict.DOES_NOT_CLOSE, "does not close", False),
        (Verdict.CANNOT_TELL, "cannot tell yet", None),
    ],
)
def test_a_verdict_has_three_values_and_a_colour_only_where_it_is_known(evidence, verdict, word, good):
    said = {"verdict": verdict, "reason": "the rate at 2 sigma is 3 times nominal at nu = -1"}
    told = report_world.changed(evidence, "closure", lambda _: said)
    cells = [row.cells[:2] for row in verdict_table(told).rows]
    assert {(cell.text, cell.good) for cell, _ in cells} == {(word, good)}
    assert {why.text for _, why in cells} == {"the rate at 2σ is 3 times nominal at ν = −1σ"}


def test_a_reason_is_set_as_prose(evidence):
    table = verdict_table(evidence)
    assert [column.label for column in table.columns if column.prose] == ["why"]
    assert r"{llcp{0.4\textwidth}c" in latex_text(table)


def test_every_point_has_its_shift_and_ratios_with_intervals(evidence):
    table = closure_tables.shift_table(evidence.summary)
    (row,) = [row for row in table.rows if row.keys[:3] == ("network", "contrastive, profiled", "ν = +1σ")]
    (found,) = [
        line
        for line in evidence.summary.closure
        if (line.test, line.configuration, line.point) == ("network", "contrastive-profiled", "R_+1")
    ]
    toys, shift, two, three, *_ = row.cells
    interval, rate = found.median_shift.interval, found.false_positives_at(2.0)
    assert toys.value == found.n_toys
    assert (shift.value, shift.low, shift.high) == (found.median_shift.shift, interval.low, interval.high)
    assert (two.value, two.low, two.high) == (rate.ratio, rate.ratio_interval.low, rate.ratio_interval.high)
    assert three.text == "not resolved"
    points = {row.keys[2] for row in table.rows if row.keys[0] == "convex test"}
    assert points == {"ν = 0", "ν = +1σ", "ν = −1σ"}


@pytest.mark.parametrize(
    ("point", "label"),
    [
        ("R_-1", "ν = −1σ"),
        ("R_0", "ν = 0"),
        ("R_jet_scale=-2,b-tag=+0.5", "jet_scale = −2σ, b-tag = +0.5σ"),
        (point_name((0.0,) * 25 + (1.0,), [f"scale_{k}" for k in range(26)]), "scale_25 = +1σ"),
        ("R_width_of_nu=+1", "width_of_nu = +1σ"),
        ("prior", "prior"),
        (point_name((), (), -1.5), "ν_N = −1.5σ"),
    ],
)
def test_a_point_has_one_name_in_tables_and_reasons(point, label):
    assert point_label(point).text == label
    reason = f"the median moves by +0.50 standard deviations at {point_text(point)}, 0.35 are tolerated"
    told = f"the median moves by +0.50 standard deviations at {label}, 0.35 are tolerated"
    assert shown_reason(reason) == told


def test_the_caption_says_what_the_error_rate_is_about(evidence):
    caption = verdict_table(evidence).caption
    assert "from about 13 000 toys per ensemble on against a law, 30 000 against" in caption
    assert "5 % is the chance of a wrong 'closes' where the median or a rate that has a say" in caption


def test_the_spread_of_every_configuration_stands_beside_its_verdict(evidence):
    table = verdict_table(evidence)
    spread = [column.label for column in table.columns].index("spread of Z over ν")
    papers = {row.keys: row.cells[spread].paper for row in table.rows if row.cells[spread].paper}
    assert papers == {
        ("network", "contrastive, profiled"): "0.95",
        ("network", "covariant, profiled"): "0.16",
    }


def test_false_positives_say_what_calibrates_them(evidence):
    table = closure_tables.shift_table(evidence.summary)
    by = {(row.keys[0], row.keys[3]) for row in table.rows}
    assert by == {("network", "R₀"), ("convex test", "law of t")}
    for caption in (table.caption, verdict_table(evidence).caption):
        assert "R₀ for the network and by the law of t" in caption.replace("\n", " ")
