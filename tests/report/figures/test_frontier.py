"""The frontier in the report: figure and table, with power and without."""

from dataclasses import replace

import pytest
import report_world
from matplotlib.figure import Figure

from covad.inference.frontier import Frontier, FrontierPoint, frontier
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.report.figures.frontier import Where, draw_frontier, frontier_figure, shown_reaches
from covad.report.page import response
from covad.report.tables.frontier import frontier_table


def reach(low: float, bounded: bool = True) -> Reach:
    return (
        Reach(2 * low, Interval(low, 4 * low), 0.25, 99)
        if bounded
        else Reach(None, Interval(low, None), 0.25, 99)
    )


def made_up(power: bool = True) -> Frontier:
    """Three seeds of alpha = 0, one of alpha = 1, whose reach at two sigma is not bounded."""
    points = [
        FrontierPoint(
            f"a{alpha}s{seed}, linear",
            "",
            alpha,
            seed,
            reach(low),
            ((1.0, reach(low)), (2.0, reach(low, alpha == 0.0))),
            0.5 + 0.1 * seed if power else None,
            0.4 if power else None,
        )
        for alpha, seed, low in ((0.0, 0, 1e4), (0.0, 1, 2e4), (0.0, 2, 4e4), (1.0, 0, 8e4))
    ]
    return frontier(points, 10_000.0, "adaptive" if power else None)


@pytest.fixture(scope="module")
def evidence():
    pair = (("contrastive", "profiled", 1), ("covariant", "profiled", 1))
    return report_world.evidence(pair, injections=())


def test_a_report_of_two_alphas_shows_reach_and_says_what_adds_the_power(evidence, monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    chapter = response(evidence)
    (figure,) = [figure for figure in chapter.figures if figure.name == "frontier"]
    assert [panel.name for panel in figure.panels] == ["frontier", "frontier_1_sigma", "frontier_2_sigma"]
    assert "covad tune-power RUN adds it" in figure.caption
    assert "of 0, 30 no prior-averaged reach is at least 5 times the expected data" in figure.caption
    assert "alpha = 0: 7\u202f000 events" in figure.panels[0].alt.replace("\xa0", "\u202f")
    assert any("covad tune-power RUN" in note for note in chapter.missing)
    assert "frontier" in [table.name for table in chapter.tables]


def test_a_report_of_one_alpha_has_no_frontier():
    alone = report_world.evidence((("covariant", "profiled", 1),), injections=())
    assert frontier_figure(alone.summary) is None
    assert frontier_table(alone.summary) is None


def test_every_space_is_a_dot_and_the_choice_is_marked():
    found = made_up()
    axes = Figure().subplots()
    assert draw_frontier(axes, found, Where()) is axes
    assert axes.get_xlabel() == "power, processes left out"
    labels = axes.get_legend_handles_labels()[1]
    assert sorted(labels) == ["5 × expected data", "by the rule", "mean and spread over seeds"]
    (ring,) = [line for line in axes.get_lines() if line.get_label() == "by the rule"]
    assert ring.get_xdata()[0] == pytest.approx(0.5)  # the power of alpha = 1
    assert [text.get_text() for text in axes.texts] == [r"$\alpha$ = 0", r"$\alpha$ = 1"]
    without = draw_frontier(Figure().subplots(), made_up(power=False), Where(2.0))
    assert without.get_xlabel() == r"$\alpha$"
    assert not without.texts  # the axis has alpha
    assert list(shown_reaches(found)) == [Where(), Where(1.0), Where(2.0)]


def test_the_table_has_means_over_seeds_bounds_and_the_choice(evidence):
    table = frontier_table(replace(evidence.summary, frontier=made_up()))
    several, one = ([cell.text for cell in row.cells] for row in table.rows)
    assert several[:2] == ["40 000 +40 000 -20 000"] * 2
    assert several[3:] == ["20 000", "0.600 ± 0.100", "0.400 ± 0.000", "no"]
    assert one[2] == ">= 80 000"
    assert one[-1] == "chosen"
    assert [row.keys for row in table.rows][1] == ("1", "a1.0s0, linear")
    assert "of the test adaptive" in table.caption
    reach_alone = frontier_table(replace(evidence.summary, frontier=made_up(power=False)))
    assert len(reach_alone.columns) == len(table.columns) - 2
    assert "covad tune-power RUN adds it" in reach_alone.caption
