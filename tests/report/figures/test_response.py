"""No nuisance is left out of the validation of the response."""

import numpy as np
import report_world

from covad.report.figures import response as response_figures
from covad.report.figures.leading import ShownNuisances
from covad.results.latent import Marginal


def test_the_validation_shows_both_signs_of_three_nuisances(monkeypatch):
    rng = np.random.default_rng(1)
    points = [tuple((sign * axis).tolist()) for axis in np.eye(3) for sign in (1.0, -1.0)]
    shifted = tuple(report_world.comparison(nu, rng) for nu in points)
    drawn = []

    def keep(name, alt, canvas):
        """Keep the legend entries of the shifts, by colour."""
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        colours = (handle.get_edgecolor() for handle in handles)
        drawn.extend(entry for entry in zip(labels, colours, strict=True) if "sigma" in entry[0])

    monkeypatch.setattr(response_figures, "panel", keep)
    response_figures.validation_panel(
        Marginal(0, "z0", np.linspace(0.0, 1.0, 7), shifted),
        "x",
        "covariant, linear",
        ShownNuisances(("jets", "soft", "rate")),
    )
    assert len({label for label, _ in drawn}) == len({colour for _, colour in drawn}) == 6
