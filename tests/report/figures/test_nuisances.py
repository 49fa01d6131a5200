"""Pulls, impacts and correlations are drawn where they are, of one nuisance and of fifty."""

from dataclasses import replace

import numpy as np
import pytest
import report_world
from observations import many_nuisances, observation

from covad.inference.nuisances import NuisanceToys
from covad.report.figures.canvas import listing
from covad.report.figures.nuisances import (
    SHOWN,
    draw_correlations,
    draw_impacts,
    draw_pulls,
    nuisance_figures,
    toy_nuisance_figure,
)


@pytest.mark.parametrize("n", [1, 50])
def test_pulls_stand_at_the_fitted_values_in_the_order_of_impacts(n):
    found = many_nuisances(observation("a.h5", 1.0), n)
    shown = min(n, SHOWN)
    with listing(["x"] * shown, columns=2) as (_, (left, right)):
        draw_pulls(left, found)
        draw_impacts(right, found.impacts)
        names = [label.get_text() for label in left.get_yticklabels()]
        assert names == [impact.name for impact in found.impacts[:SHOWN]]
        assert names == [label.get_text() for label in right.get_yticklabels()]
        points = next(line for line in left.lines if line.get_marker() == "o")
        assert list(points.get_xdata()) == [fit.shift for fit in found.ranked_nuisances[:SHOWN]]
        widths = [bar.get_width() for bar in right.patches]
        first = found.impacts[0]
        ends = (first.down, first.prefit_down, first.up, first.prefit_up)
        assert widths[:4] == [end.change for end in ends]
        assert len(widths) == 4 * shown


def test_the_strongest_correlations_are_drawn_in_per_cent():
    correlations = many_nuisances(observation("a.h5", 1.0), 40).correlations
    with listing(["x"] * SHOWN, square=True) as (_, (axes,)):
        draw_correlations(axes, correlations)
        names = [label.get_text() for label in axes.get_yticklabels()]
        texts = np.array([text.get_text() for text in axes.texts]).reshape(SHOWN, SHOWN)
    first, second, value = correlations.pairs[0]
    assert texts[names.index(first), names.index(second)] == f"{round(100 * value)}".replace("-", "−")
    assert set(np.diag(texts)) == {"100"}


def test_figures_say_what_they_leave_out():
    (many,) = nuisance_figures([many_nuisances(observation("a.h5", 1.0), 50)])
    assert many.caption.endswith("The first 20 of 50 nuisances are shown; the tables have all.")
    assert [panel.wide for panel in many.panels] == [True, False]
    (one,) = nuisance_figures([many_nuisances(observation("a.h5", 1.0), 1)])
    assert len(one.panels) == 1
    (older,) = nuisance_figures([observation("a.h5", 1.0)])
    assert [panel.wide for panel in older.panels] == [False]
    assert list(nuisance_figures([replace(observation("a.h5", 1.0), nuisances=())])) == []


def test_fifty_nuisances_of_toys_share_two_panels():
    toys = tuple(NuisanceToys(f"n{k}", 60, 0.0, 0.5, 0.0, 0.7) for k in range(51))
    found = report_world.evidence((("covariant", "profiled", 1),), injections=())
    many = report_world.changed(found, "nuisances", lambda _: {"nuisances": toys})
    assert len(toy_nuisance_figure(many).panels) == 2
    assert len(toy_nuisance_figure(found).panels) == 1
    assert toy_nuisance_figure(replace(found, summary=replace(found.summary, nuisances=()))) is None
