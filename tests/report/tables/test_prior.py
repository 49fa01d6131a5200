"""What t depends on, in the report."""

from dataclasses import replace

import numpy as np
import pytest
import report_world

from covad.inference.coverage import prior_dependence
from covad.report.formats.hepdata import _table
from covad.report.tables.prior import prior_table

NAMES = ("jes", "les", "normalisation")


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence((("covariant", "profiled", 1),), checked=False)


def _rows(evidence, n_toys, *slopes):
    """The table for toys whose t depends on each nuisance with its slope, in standard deviations.

    Terms with a slope of 0 have a corrected p below 0.05 together with a probability of 5 %.
    """
    rng = np.random.default_rng(3)
    truth = rng.standard_normal((n_toys, 3))
    t = 45.0 + 9.5 * (rng.standard_normal(n_toys) + truth @ np.array(slopes))
    found = prior_dependence(t, truth, NAMES, 45.0, 9.5)
    told = report_world.changed(evidence, "prior", lambda _: {"dependence": found})
    table = prior_table(told.summary)
    _table(table)
    return table.rows, found


def test_every_term_that_matters_is_shown_the_strongest_first(evidence):
    rows, found = _rows(evidence, 400, 0.5, 0.0, -1.0)
    assert [row.keys[3] for row in rows] == ["normalisation", "jes"]
    assert {row.keys[:3] for row in rows} == {("network", "covariant, profiled", "400")}
    slopes = {term.term: term.slope for term in found.terms}
    assert [row.cells[2].value for row in rows] == [slopes["normalisation"], slopes["jes"]]
    assert {row.cells[-1].text for row in rows} == {"–"}


def test_the_strongest_term_is_shown_also_where_none_matters(evidence):
    rows, found = _rows(evidence, 400, 0.0, 0.0, 0.0)
    assert [row.keys[3] for row in rows] == [found.strongest.term]
    assert rows[0].cells[3].value > 0.05


def test_terms_that_were_too_many_for_the_toys_are_named(evidence):
    rows, found = _rows(evidence, 50, 0.0, 0.0, 0.0)
    assert found.left_out == "squares: 3 terms are too many for 50 toys"
    assert {row.cells[-1].text for row in rows} == {found.left_out}


def test_without_terms_there_is_the_shift_alone(evidence):
    found = replace(evidence.summary.prior[0].dependence, terms=(), left_out="first order: too many")
    told = report_world.changed(evidence, "prior", lambda _: {"dependence": found})
    (row,) = prior_table(told.summary).rows
    assert row.keys[3] == "–"
    assert [cell.text for cell in row.cells[2:]] == ["–", "–", "first order: too many"]
