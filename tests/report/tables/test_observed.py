"""Observed files in the report: the numbers of `covad test`, and where the excess lies."""

from dataclasses import replace

import pytest
from observations import observable, observation

from covad.inference.intervals import Interval
from covad.report.figures.canvas import drawing
from covad.report.figures.excess import axis_label, draw_observable
from covad.report.tables.observed import nuisance_table, observed_table


def test_an_observed_z_is_written_as_on_the_terminal():
    network, convex = observed_table([observation("a.h5", 1.0, toys=Interval(0.9, None))]).rows
    assert network.keys == ("a.h5", "covariant, profiled", "network")
    assert [cell.text for cell in network.cells] == ["60.00", "0.16", "1.00 +open -0.10", "0.16", "1.00"]
    assert {cell.text for cell in convex.cells} == {"–"}


def test_an_observed_z_beyond_the_toys_of_its_null_is_marked():
    network, _ = observed_table([observation("a.h5", 2.5)]).rows
    assert [cell.extrapolated for cell in network.cells] == [False, False, False, False, True]


def test_files_that_met_other_nulls_have_gaps():
    usual, other = observation("a.h5", 1.0), observation("b.h5", 1.0)
    network = other.result("network")
    without_toys = replace(other, tests=(replace(network, significances=network.significances[1:]),))
    *_, row = observed_table([usual, without_toys]).rows
    assert [cell.text for cell in row.cells] == ["60.00", "–", "–", "0.16", "1.00"]


def test_the_nuisances_of_observed_files_have_their_pulls():
    table = nuisance_table([observation("a.h5", 1.0)])
    assert [column.full for column in table.columns[2:5]] == [
        "jet_energy_scale, auxiliary",
        "jet_energy_scale, fitted",
        "jet_energy_scale, pull",
    ]
    (row,) = table.rows
    assert [cell.text for cell in row.cells] == ["10100", "10000", "0.50", "-0.25 ± 0.12", "-0.75", "0.61"]


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
    assert observed_table([]) is nuisance_table([]) is None


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
