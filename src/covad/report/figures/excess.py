"""Where the excess of an observed file lies, one panel per observable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from covad.nplm.dataset import Float64
from covad.observed.result import Excess, ObservableComparison, Observation
from covad.report.figures.canvas import BLACK, GREY, Figure, drawing, headroom, legend, panel
from covad.report.figures.latent import filled
from covad.report.names import slug, test_label
from covad.report.texts import texts

#: Observed files that get pictures.
PICTURED = 2
#: Scales of objects that are given in GeV.
_IN_GEV = ("pt", "et", "energy", "mass")
#: Upper end of the axis of data over what is expected.
HIGHEST_RATIO = 2.0


def most_significant(observations: Sequence[Observation]) -> list[Observation]:
    """Return the answers of largest Z, which get pictures."""

    def largest_z(observation: Observation) -> float:
        every = (found.z for test in observation.tests for found in test.significances)
        return max(every, default=-np.inf)

    return sorted(observations, key=largest_z, reverse=True)[:PICTURED]


def excess_figures(observations: Sequence[Observation]) -> Iterator[Figure]:
    """Draw where the excess lies on the files of largest Z, for each test, the default one unfolded."""
    for observation in most_significant(observations):
        for test in observation.tests:
            if test.excess is None:
                continue
            name = slug(f"excess_{observation.name}_{test.test}")
            panels = []
            for observable in test.excess.observables:
                with drawing((1.7, 0.9)) as (canvas, (above, below)):
                    draw_observable(above, observable, below)
                    alt = f"{observation.file}: {_seen(test.excess, observable)}"
                    panels.append(panel(slug(f"{name}_{observable.name}"), alt, canvas))
            words = texts(
                "figures",
                "excess",
                file=observation.file,
                test=test_label(test.test),
                n_top=test.excess.n_top,
                expected=f"{test.excess.expected:.1f}",
            )
            yield Figure(name, panels=tuple(panels), **words, folded=test is not observation.tests[0])


def _seen(excess: Excess, observable: ObservableComparison) -> str:
    return (
        f"{observable.name} of the {excess.n_top} events of largest h, mean {observable.top_mean:.4g}, over "
        f"the {excess.expected:.1f} expected there; below, all observed events over all expected ones"
    )


def draw_observable(above: Axes, observable: ObservableComparison, below: Axes | None = None) -> None:
    """Draw the events of largest h over their expectation, and on other axes all events over theirs.

    An arrow at the upper edge stands for a ratio beyond it, and for events where none is expected.
    """
    edges, top = np.array(observable.edges), np.array(observable.top)
    centres = (edges[1:] + edges[:-1]) / 2
    filled(above, np.array(observable.region), edges, "expected there")
    above.errorbar(centres, top, np.sqrt(top), fmt="o", color=BLACK, label="events of largest h")
    above.set_ylabel("events")
    headroom(above)
    legend(above)
    (below or above).set_xlabel(axis_label(observable.name))
    if below is None:
        return

    draw_ratio(below, centres, np.array(observable.observed), np.array(observable.everywhere))
    below.set_ylabel("all / exp.")


def draw_ratio(axes: Axes, centres: Float64, counts: Float64, expected: Float64) -> None:
    """Draw counts over their expectation; an arrow stands for a ratio beyond the axis."""
    some = expected > 0
    ratio, error = (x[some] / expected[some] for x in (counts, np.sqrt(counts)))
    axes.axhline(1.0, color=GREY, linestyle="--")
    axes.errorbar(centres[some], ratio, error, fmt=".", color=BLACK)
    beyond = counts > HIGHEST_RATIO * expected
    axes.plot(centres[beyond], np.full(beyond.sum(), 0.93 * HIGHEST_RATIO), "^", color=BLACK, markersize=4)
    axes.set_ylim(0.0, HIGHEST_RATIO)


def axis_label(observable: str) -> str:
    """Add the unit of momenta, energies and masses, which covad's events have in GeV; numbers have none."""
    return f"{observable} [GeV]" if observable.split()[-1] in _IN_GEV else observable
