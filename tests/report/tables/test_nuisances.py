"""Tables of nuisances: pulls, constraints, impacts and correlations; over toys; the ranked closure."""

from dataclasses import replace

import pytest
import report_world
from observations import many_nuisances, observation

from covad.inference.ranking import NuisanceMisfit, PairMisfit, PriorClosure, Shift, TrainingSpread
from covad.report.figures.nuisances import SHOWN
from covad.report.formats.csv import csv_text
from covad.report.tables.nuisances import correlation_table, nuisance_table, toy_nuisance_table
from covad.report.tables.ranking import ranking_table


def test_an_older_answer_has_its_pulls_and_no_constraints():
    table = nuisance_table([observation("a.h5", 1.0)])
    (row,) = table.rows
    assert row.keys == ("a.h5", "covariant, profiled", "jet_energy_scale")
    assert [cell.text for cell in row.cells] == ["0.50", "-0.25 ± 0.12", "-0.75", "–", "-0.12", *["–"] * 5]


def test_many_nuisances_are_ranked_and_the_page_has_the_leading_and_unusual_ones():
    found = many_nuisances(observation("a.h5", 1.0), 50)
    table = nuisance_table([found])
    assert [row.keys[-1] for row in table.rows] == [impact.name for impact in found.impacts]
    shown = [row.keys[-1] for row in table.on_page]
    unusual = [fit.name for fit in found.ranked_nuisances[SHOWN:] if fit.unusual]
    assert shown == [impact.name for impact in found.impacts[:SHOWN]] + unusual
    assert unusual
    assert len(csv_text(table).splitlines()) == 51
    first = found.impacts[0]
    assert [cell.value for cell in table.rows[0].cells[-4:-2]] == [first.down.change, first.up.change]


def test_an_impact_without_a_fit_says_so():
    found = many_nuisances(observation("a.h5", 1.0), 2)
    convex = found.tests[0]
    lost = replace(convex.impacts[0].up, t=None, z=None, change=None)
    impacts = (replace(convex.impacts[0], up=lost), *convex.impacts[1:])
    table = nuisance_table([replace(found, tests=(replace(convex, impacts=impacts),))])
    assert [cell.text for cell in table.rows[0].cells].count("no fit") == 1


def test_every_pair_has_its_correlation_the_strongest_first():
    table = correlation_table([many_nuisances(observation("a.h5", 1.0), 30), observation("b.h5", 1.0)])
    assert len(table.rows) == 30 * 29 // 2
    sizes = [abs(row.cells[0].value) for row in table.rows]
    assert sizes == sorted(sizes, reverse=True)
    assert len(table.on_page) == SHOWN
    assert correlation_table([observation("b.h5", 1.0)]) is None


def test_toys_tell_bias_and_width_of_every_nuisance():
    summary = report_world.evidence((("covariant", "profiled", 1),), injections=()).summary
    norm, scale = toy_nuisance_table(summary).rows
    assert norm.keys == ("network", "covariant, profiled", "ν = 0", "normalisation")
    assert [cell.text for cell in norm.cells] == ["-0.30 +0.03 -0.03", "0.20", "biased", "-0.10", "0.90"]
    assert scale.cells[2].text == "none seen"
    assert toy_nuisance_table(replace(summary, nuisances=())) is None


def ranked(pruned: bool = True):
    found = report_world.evidence((("covariant", "profiled", 1),), injections=())
    unseen = Shift(-0.01, 0.0, 0.02)
    closure = PriorClosure(
        10_000.0,
        Shift(0.3, 0.2, 0.5),
        (NuisanceMisfit(0, Shift(0.2, 0.1, 0.4), unseen, 0.001, pruned),),
        (PairMisfit((0, 0), unseen),),
        (1.0,),
        0.2,
    )
    (name,) = found.checks
    spread = TrainingSpread(3, True, 10_000.0, (0.05,))
    return replace(found, checks={name: replace(found.checks[name], prior=closure, spread=spread)})


def test_the_closure_over_the_prior_is_ranked_and_names_what_is_negligible():
    table = ranking_table(ranked())
    average, scale, pair = table.rows
    assert [cell.text for cell in average.cells] == ["0.300 +0.200 -0.100", "–", "0.050", "–", "–"]
    assert scale.keys == ("covariant, linear", "jet_energy_scale")
    assert [cell.text for cell in scale.cells] == [
        "0.200 +0.200 -0.100",
        "<= 0.020",
        "0.050",
        "0.001",
        "yes",
    ]
    assert pair.cells[0].text == "<= 0.020"
    assert table.caption.endswith("Negligible in the covariant, linear space: jet_energy_scale.")
    assert ranking_table(ranked(pruned=False)).caption.endswith("No nuisance is negligible by this rule.")


@pytest.mark.parametrize("checked", [True, False])
def test_runs_without_a_ranking_have_no_such_table(checked):
    assert ranking_table(report_world.evidence(injections=(), checked=checked)) is None
