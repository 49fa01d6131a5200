"""Observed files in the report: the numbers of `covad test`, and where the excess lies."""

from dataclasses import replace

import pytest
import report_world
from observations import input_comparison, observable, observation, significance

from covad.inference.intervals import Interval
from covad.report.figures.canvas import drawing
from covad.report.figures.excess import axis_label, draw_observable
from covad.report.figures.inputs import PICTURED, draw_input, input_figures
from covad.report.page import observed
from covad.report.tables.nuisances import nuisance_table
from covad.report.tables.observed import event_table, input_table, observed_table, result_table


def test_an_observed_z_is_written_as_on_the_terminal():
    network, convex = observed_table([observation("a.h5", 1.0, toys=Interval(0.9, None))]).rows
    assert network.keys == ("a.h5", "covariant, profiled", "network")
    assert [cell.text for cell in network.cells] == ["60.00", "0.16", "1.00 +open -0.10", "0.16", "1.00"]
    assert {cell.text for cell in convex.cells} == {"–"}


def _result(found):
    (row,) = result_table([found]).rows
    return row.keys, [cell.text for cell in row.cells]


def test_the_first_table_has_the_one_number_of_every_file():
    keys, cells = _result(observation("a.h5", 1.0))
    assert keys == ("a.h5", "covariant, profiled", "network")
    assert cells == ["0.159", "1.00", "0.159", "converged", "toys at the fitted yield"]
    tables = observed(report_world.evidence(observed=(observation("a.h5", 1.0),))).tables
    assert [table.name for table in tables[:2]] == ["observed_results", "observed_files"]
    assert result_table([]) is None


def test_a_result_beyond_all_toys_is_a_bound_and_one_beyond_tested_laws_is_marked():
    assert _result(observation("a.h5", 3.0))[1][:2] == ["<= 0.00135", ">= 3.00"]
    found = observation("a.h5", 2.5)
    by_law = replace(found, tests=(replace(found.result("network"), quoted="chi2"),))
    (row,) = result_table([by_law]).rows
    assert [cell.extrapolated for cell in row.cells] == [False, True, False, False, False]
    low = replace(found.result("network"), significances=(significance("R_0", -2.8, saturated=True),))
    assert _result(replace(found, tests=(low,)))[1][:2] == ["0.997", "<= -2.80"]


def test_a_failed_fit_has_no_result_and_says_so():
    failed = replace(observation("a.h5", 1.0), rule="convex")
    (row,) = result_table([failed]).rows
    assert [cell.text for cell in row.cells] == ["none", "none", "–", "failed", ""]
    assert row.cells[3].good is False


def test_the_joint_p_stands_among_the_nulls_and_is_the_result_where_the_rule_says_so():
    found = replace(observation("a.h5", 1.0), rule="joint", joint=significance("joint", 0.5))
    found = replace(found, tests=found.tests[:1])
    keys, cells = _result(found)
    assert keys[2] == "both tests"
    assert cells == ["0.309", "0.50", "–", "converged", "the smaller p, by toys that both have"]
    table = observed_table([found])
    assert [column.group for column in table.columns[-2:]] == ["both tests jointly"] * 2
    network, joint = table.rows
    assert [cell.text for cell in network.cells[-2:]] == ["–", "–"]
    assert joint.keys == ("a.h5", "covariant, profiled", "both tests")
    assert [cell.text for cell in joint.cells] == ["–", "–", "–", "–", "–", "0.31", "0.50"]


def test_an_observed_z_beyond_the_toys_of_its_null_is_marked():
    network, _ = observed_table([observation("a.h5", 2.5)]).rows
    assert [cell.extrapolated for cell in network.cells] == [False, False, False, False, True]


def test_files_that_met_other_nulls_have_gaps():
    usual, other = observation("a.h5", 1.0), observation("b.h5", 1.0)
    network = other.result("network")
    without_toys = replace(other, tests=(replace(network, significances=network.significances[1:]),))
    *_, row = observed_table([usual, without_toys]).rows
    assert [cell.text for cell in row.cells] == ["60.00", "–", "–", "0.16", "1.00"]


def test_events_and_the_agreement_of_auxiliary_values_have_a_row():
    (row,) = event_table([observation("a.h5", 1.0)]).rows
    assert [cell.text for cell in row.cells] == ["10100", "10000", "1", "0.61", "0"]


def test_several_questions_about_one_file_can_be_told_apart():
    usual = observation("a.h5", 1.0)
    other = replace(usual, expected=9000.0)
    for table in (observed_table([usual, other]), nuisance_table([usual, other])):
        files = list(dict.fromkeys(row.keys[0] for row in table.rows))
        assert files == [
            "a.h5 (10000 expected, jet_energy_scale +0.5)",
            "a.h5 (9000 expected, jet_energy_scale +0.5)",
        ]


def test_without_observed_files_there_are_no_tables():
    assert observed_table([]) is nuisance_table([]) is event_table([]) is None


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("leading jet pt", "leading jet pt [GeV]"),
        ("sum of pt", "sum of pt [GeV]"),
        ("number of jets", "number of jets"),
    ],
)
def test_momenta_have_a_unit(name, label):
    assert axis_label(name) == label


def test_events_where_none_is_expected_are_drawn_as_arrows():
    line = observable(edges=(0, 10, 20, 30, 40), observed=(9, 3, 0, 5), everywhere=(8, 0, 0, 1))
    with drawing((1.7, 0.9)) as (_, (above, below)):
        draw_observable(above, line, below)
        (arrows,) = [drawn for drawn in below.lines if drawn.get_marker() == "^"]
    assert list(arrows.get_xdata()) == [15.0, 35.0]


def test_every_input_of_every_file_stands_beside_the_simulation():
    wrong = replace(observation("b.h5", 1.0), inputs=input_comparison(wrong=True))
    again = replace(observation("a.h5", 1.0), expected=300.0)  # the same file, another question
    table = input_table([observation("a.h5", 1.0), again, wrong])
    assert [row.keys for row in table.rows[:2]] == [("a.h5", "number of mets"), ("a.h5", "met pt")]
    assert len(table.rows) == 2 * len(input_comparison().quantities)
    verdicts = {row.keys: row.cells[-1].text for row in table.rows}
    assert verdicts["a.h5", "jet phi"] == "agrees"
    assert verdicts["b.h5", "jet phi"] == "differs"
    assert verdicts["b.h5", "jet pt"] == "agrees"
    (phi,) = [row for row in table.rows if row.keys == ("b.h5", "jet phi")]
    assert [float(phi.cells[place].text) for place in (4, 9)] == pytest.approx([172.0, 3.0], rel=0.02)
    assert input_table([]) is None


def test_two_files_of_one_name_are_told_apart():
    other = replace(observation("a.h5", 1.0), sha256="fedcba9876543210")
    table = input_table([observation("a.h5", 1.0), other])
    assert {row.keys[0] for row in table.rows} == {"a.h5 (01234567)", "a.h5 (fedcba98)"}


def test_the_files_that_differ_most_are_pictured_with_ratios():
    wrong = replace(observation("z.h5", 1.0), inputs=input_comparison(wrong=True))
    found = list(input_figures([*(observation(f"{n}.h5", 1.0) for n in "abc"), wrong]))
    assert len(found) == PICTURED
    assert found[-1].title == "Inputs of z.h5 beside the simulation"
    assert len(found[-1].panels) == len(input_comparison().quantities)
    assert len({panel.name for figure in found for panel in figure.panels}) == sum(
        len(f.panels) for f in found
    )


def test_a_ratio_panel_shows_data_over_simulation():
    (phi,) = [q for q in input_comparison(wrong=True).quantities if q.name == "jet phi"]
    with drawing((1.6, 0.9)) as (_, (above, below)):
        draw_input(above, phi, below)
        points, arrows = below.lines[1], below.lines[-1]
        assert len(points.get_xdata()) == sum(x > 0 for x in phi.expected)
        assert len(arrows.get_xdata()) == sum(
            x > 2 * y for x, y in zip(phi.counts, phi.expected, strict=True)
        )
        assert [text.get_text() for text in above.texts] == ["differs"]
