"""Figures of many nuisances show the leading ones by name, and say so; those of a few show all."""

import pytest
import report_world

from covad.report.figures import latent as latent_figures
from covad.report.figures import response as response_figures
from covad.report.figures.canvas import Panel
from covad.report.figures.leading import ShownNuisances, shown_nuisances

SPACE = "covariant_linear"
#: Their number, and what the ones in the middle do to the marginals.
MANY = {f"source_{k}": 0.001 for k in range(22)} | {
    "rate": 0.1,
    "scale": 0.2,
    "soft": 0.15,
    "generator": 0.05,
}


def world(effects, left_out=()):
    found = report_world.evidence((("covariant", "profiled", 1),), injections=())
    return report_world.with_nuisances(found, effects, left_out)


def figures(evidence):
    yield latent_figures.distortions(evidence, SPACE, None)
    yield from latent_figures.marginal_figures(evidence)
    yield response_figures.log_ratio_bins(evidence)
    yield from response_figures.validation_figures(evidence)


@pytest.fixture
def drawn(monkeypatch):
    """Names in the legends of every panel, and whether they stand above it."""
    found = {}

    def keep(name, alt, canvas):
        inside = [ax.get_legend() for ax in canvas.axes if ax.get_legend()]
        labels = [text.get_text() for one in (*canvas.legends, *inside) for text in one.get_texts()]
        found[name] = labels, bool(canvas.legends) and not inside
        if canvas.legends:
            canvas.draw_without_rendering()
            box = canvas.legends[0].get_window_extent()
            assert box.y0 >= canvas.axes[0].get_window_extent().y1
            assert 0 <= box.x0 < box.x1 <= canvas.bbox.x1
        return Panel(name, alt, "", b"")

    monkeypatch.setattr(latent_figures, "panel", keep)
    monkeypatch.setattr(response_figures, "panel", keep)
    return found


def test_three_nuisances_are_all_shown():
    assert shown_nuisances(world({"a": 0.1, "b": 0.2, "c": 0.3}), SPACE) == ShownNuisances(("a", "b", "c"))


def test_the_leading_ones_have_the_largest_effect_in_the_marginals():
    shown = shown_nuisances(world(MANY), SPACE)
    assert shown.leading == {23: "scale", 24: "soft", 22: "rate"}
    assert "Of 26 nuisances, those with the largest log(N_ν/N₀)" in shown.caption
    assert "scale, soft, rate; the tables have all" in shown.caption


def test_the_shift_of_t_without_a_nuisance_ranks_first():
    shown = shown_nuisances(world(MANY, [0.0, 0.3, *[0.0] * 22, 0.1, 0.9]), SPACE)
    assert list(shown.leading.values()) == ["generator", "source_1", "soft"]
    assert "that would shift t most if they were left out" in shown.caption


def test_every_figure_names_the_leading_ones_above_its_panel(drawn):
    found = list(figures(world(MANY, [*[0.0] * 22, 0.1, 0.2, 0.0, 0.9])))
    names = ["generator", "scale", "rate"]
    assert all("generator, scale, rate" in figure.caption for figure in found)
    assert all(above for _, above in drawn.values())
    assert drawn["latent_distortions_z0"][0] == ["nominal", *names]
    assert drawn["marginals_covariant_z0"][0] == [r"$\nu = 0$", *names]
    assert drawn["log_ratio_bins_1"][0] == names
    signs = [rf"{name} ${sign}1\sigma$" for name in names for sign in "+-"]
    assert drawn[f"validation_{SPACE}_z0"][0] == [r"$\nu = 0$", *signs]
    assert "shifted by ±1 or 2σ" in found[0].caption
    assert "at generator = +1σ" in found[-1].panels[0].alt


def test_long_names_stay_inside_the_panel(drawn):
    list(figures(world({f"a_rather_long_name_of_number_{k}": 0.1 for k in range(4)})))
    assert all(above for _, above in drawn.values())


def test_figures_of_a_few_nuisances_keep_their_legends(drawn):
    found = list(figures(world({"a": 0.1, "b": 0.2, "c": 0.3})))
    assert not any(above for _, above in drawn.values())
    assert not any("the tables have all" in figure.caption for figure in found)
    assert len(drawn[f"validation_{SPACE}_z0"][0]) == 7
