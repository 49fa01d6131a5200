"""Inputs of observed events over those of the simulation, one panel per quantity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from covad.inference.inputs import InputComparison, Quantity
from covad.observed.result import Observation
from covad.report.figures.canvas import BLACK, FILL, Figure, drawing, headroom, legend, panel
from covad.report.figures.excess import axis_label, draw_ratio
from covad.report.figures.latent import filled
from covad.report.names import slug
from covad.report.tables.observed import compared_files
from covad.report.texts import texts

#: Observed files that get pictures: those that differ most from the simulation.
PICTURED = 2


def input_figures(observations: Sequence[Observation]) -> Iterator[Figure]:
    """Draw data over simulation for the files that differ most, in the order of their names."""

    def largest(observation: Observation) -> float:
        found = [quantity.difference for quantity in observation.inputs.quantities]
        return max((difference.distance for difference in found if difference), default=0.0)

    files = compared_files(observations)
    pictured = sorted(files, key=lambda name: largest(files[name]), reverse=True)[:PICTURED]
    for name in sorted(pictured):
        observation = files[name]
        yield input_figure(observation.inputs, name, f"inputs_{observation.file}_{observation.sha256[:8]}")


def input_figure(comparison: InputComparison, file: str, name: str) -> Figure:
    """Draw every input of one file."""
    panels = []
    for quantity in comparison.quantities:
        with drawing((1.6, 0.9)) as (canvas, (above, below)):
            draw_input(above, quantity, below)
            found = "differs from" if quantity.warning is not None else "agrees with"
            alt = f"{quantity.name} of {file} (points) {found} the simulation (filled); below, their ratio"
            panels.append(panel(slug(f"{name}_{quantity.name}"), alt, canvas))
    words = texts("figures", "inputs", file=file, n_events=comparison.n_events)
    return Figure(slug(name), panels=tuple(panels), **words, folded=not comparison.different)


def draw_input(above: Axes, quantity: Quantity, below: Axes | None = None) -> None:
    """Draw data over the simulation, and on other axes their ratio.

    The band is the uncertainty of the finite simulation. An arrow at the upper edge stands for a ratio beyond
    it, and for data where the simulation has none.
    """
    edges, counts = np.array(quantity.edges), np.array(quantity.counts)
    expected, error = np.array(quantity.expected), np.array(quantity.expected_error)
    centres = (edges[1:] + edges[:-1]) / 2
    filled(above, expected, edges, "simulation")
    above.errorbar(centres, counts, np.sqrt(counts), fmt="o", color=BLACK, label="data")
    above.set_ylabel("events" if quantity.feature is None else "objects")
    above.set_ylim(0.0, max(1.0, float((counts + np.sqrt(counts)).max()), float(expected.max())))
    headroom(above)
    legend(above)
    if quantity.warning is not None:
        above.text(0.03, 0.95, "differs", transform=above.transAxes, va="top", fontweight="bold", fontsize=8)
    lowest = below or above
    lowest.set_xlabel(axis_label(quantity.name))
    lowest.xaxis.set_major_locator(MaxNLocator(6, integer=quantity.feature is None))
    if below is None:
        return
    band = np.divide(error, expected, out=np.zeros_like(error), where=expected > 0)
    below.stairs(1 + band, edges, baseline=1 - band, fill=True, color=FILL)
    draw_ratio(below, centres, counts, expected)
    below.set_ylabel("data / sim.")
