"""Where the excess lies: observed events ranked by h, and what they look like beside the expectation.

h was fitted to these very events, so their number in the region of largest h exceeds the expectation even
without a signal: the region shows where to look, t says whether there is something.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import EventLayout
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import NplmTest
from covad.nplm.likelihood import join_nuisances, nuisance_shift
from covad.nplm.statistic import Outcome
from covad.observed.background import BackgroundEvents
from covad.observed.dataset import ObservedEvents

Observables = dict[str, Float64]


def observables_of(layout: EventLayout, particles: Float32) -> Observables:
    """Per event: multiplicity and leading scale of every collection, and the scalar sum of the scale.

    A collection of one slot, such as the missing momentum, has no multiplicity and is no part of the sum.
    """
    scale = layout.features[0]
    found: Observables = {}
    total = np.zeros(len(particles))
    for collection in layout.collections:
        values = particles[:, layout.slots(collection.name), 0].astype(np.float64)
        if collection.slots == 1:
            found[f"{collection.name} {scale}"] = values[:, 0]
            continue
        found[f"number of {collection.name}s"] = (values > 0).sum(axis=1).astype(np.float64)
        found[f"leading {collection.name} {scale}"] = values.max(axis=1)
        total += values.sum(axis=1)
    found[f"sum of {scale}"] = total
    return found


def bin_edges(name: str, values: Float64, bins: int = 20) -> Float64:
    """One bin per number of objects; else equal bins that leave 1 % of the values to the last one."""
    if name.startswith("number of "):
        return np.asarray(np.arange(-0.5, values.max(initial=0.0) + 1.0))
    high = float(np.quantile(values, 0.99)) or 1.0
    return np.linspace(0.0, high, bins + 1)


def histogram(values: Float64, edges: Float64, weights: Float64 | None = None) -> Float64:
    """Counts; what lies beyond the edges belongs to the outer bins."""
    inside = np.clip(values, edges[0], edges[-1])
    return np.histogram(inside, bins=edges, weights=weights)[0].astype(np.float64)


#: The region holds this share of the observed events, and at least so many.
TOP_SHARE = 0.01
FEWEST_TOP = 20


@dataclass(frozen=True)
class RankedEvent:
    """An observed event by its number in the file, from 0."""

    event: int
    h: float
    observables: dict[str, float]


@dataclass(frozen=True)
class ObservableComparison:
    """One observable of the top events, beside the background expected in their region and everywhere.

    Histograms are numbers of events; those of the background are expectations at the fitted nuisances.
    """

    name: str
    top_mean: float
    top_error: float
    region_mean: float | None  # None where the background sample has no event in the region
    everywhere_mean: float
    edges: tuple[float, ...]
    top: tuple[float, ...]
    region: tuple[float, ...]
    observed: tuple[float, ...]
    everywhere: tuple[float, ...]


@dataclass(frozen=True)
class Excess:
    """The observed events of largest h."""

    h_threshold: float
    n_top: int
    expected: float  # background in the region h >= h_threshold, at the fitted nuisances
    expected_error: float  # of the finite background sample
    ranked: tuple[RankedEvent, ...]
    observables: tuple[ObservableComparison, ...]


def find_excess(
    events: ObservedEvents,
    background: BackgroundEvents,
    dataset: Dataset,
    test: NplmTest,
    outcome: Outcome,
) -> Excess:
    """The top events by h of the fit tau, with the background expected there."""
    h = outcome.tau.h_data.astype(np.float64)
    order = np.argsort(-h, kind="stable")[: max(FEWEST_TOP, round(TOP_SHARE * len(h)))]
    threshold = float(h[order[-1]])
    yields = _expected_yields(background, dataset, outcome)
    in_region = test.h(outcome.tau.parameters, background.sample.z) >= threshold
    mine = observables_of(events.layout, events.particles)
    theirs = observables_of(events.layout, background.particles)
    return Excess(
        h_threshold=threshold,
        n_top=len(order),
        expected=float(yields[in_region].sum()),
        expected_error=float(np.sqrt(np.square(yields[in_region]).sum())),
        ranked=tuple(_ranked(int(i), h, events, mine) for i in order),
        observables=tuple(
            _compare(name, mine[name], theirs[name], order, in_region, yields) for name in mine
        ),
    )


def _expected_yields(background: BackgroundEvents, dataset: Dataset, outcome: Outcome) -> Float64:
    """Expected events per background event, at the nuisances that the Delta fit finds."""
    nu = join_nuisances(outcome.delta, dataset)
    shift = nuisance_shift(background.sample.response, nu) if len(nu) else 0.0
    return np.asarray(dataset.weights.sum() * background.shares * np.exp(shift))


def _ranked(i: int, h: Float64, events: ObservedEvents, mine: Observables) -> RankedEvent:
    return RankedEvent(
        int(events.rows[i]), float(h[i]), {name: float(values[i]) for name, values in mine.items()}
    )


def _compare(
    name: str,
    mine: Float64,
    theirs: Float64,
    top: NDArray[np.intp],
    in_region: NDArray[np.bool_],
    yields: Float64,
) -> ObservableComparison:
    edges = bin_edges(name, np.concatenate([mine, theirs]))
    region = yields * in_region
    return ObservableComparison(
        name=name,
        top_mean=float(mine[top].mean()),
        top_error=float(mine[top].std(ddof=1) / np.sqrt(len(top))) if len(top) > 1 else 0.0,
        region_mean=float(np.average(theirs, weights=region)) if in_region.any() else None,
        everywhere_mean=float(np.average(theirs, weights=yields)),
        edges=tuple(edges.tolist()),
        top=tuple(histogram(mine[top], edges).tolist()),
        region=tuple(histogram(theirs, edges, region).tolist()),
        observed=tuple(histogram(mine, edges).tolist()),
        everywhere=tuple(histogram(theirs, edges, yields).tolist()),
    )
