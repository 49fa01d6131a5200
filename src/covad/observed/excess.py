"""Where the excess lies: observed events ranked by h, and what they look like beside the expectation.

h was fitted to these very events, so their number in the region of largest h exceeds the expectation even
without a signal: the region shows where to look, t says whether there is something.

Background events with weights count with their signs: what is expected in a small region, or in a bin, may be
negative by chance, and its error says so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import EventLayout
from covad.inference.histograms import clipped_counts
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import NplmTest
from covad.nplm.likelihood import join_nuisances, nuisance_shift
from covad.nplm.statistic import Outcome
from covad.observed.dataset import BackgroundEvents, ObservedEvents
from covad.observed.result import Excess, ObservableComparison, RankedEvent

#: The region holds this share of the observed events, and at least so many.
TOP_SHARE = 0.01
FEWEST_TOP = 20


def find_excess(
    events: ObservedEvents, background: BackgroundEvents, dataset: Dataset, test: NplmTest, outcome: Outcome
) -> Excess:
    """Return the top events by h of the fit tau, with the background expected there."""
    h = outcome.tau.h_data.astype(np.float64)
    top = np.argsort(-h, kind="stable")[: max(FEWEST_TOP, round(TOP_SHARE * len(h)))]
    threshold = float(h[top[-1]])
    in_region = test.h(outcome.tau.parameters, background.embedded.z) >= threshold
    # expected events per background event, at the nuisances that the Delta fit finds
    nu = join_nuisances(outcome.delta, dataset)
    shift = nuisance_shift(background.embedded.response, nu) if len(nu) else 0.0
    yields: Float64 = np.asarray(dataset.weights.sum() * background.shares * np.exp(shift))
    observed = observables_of(events.layout, events.particles)
    expected = observables_of(events.layout, background.particles)
    return Excess(
        h_threshold=threshold,
        n_top=len(top),
        expected=float(yields[in_region].sum()),
        expected_error=float(np.sqrt(np.square(yields[in_region]).sum())),
        ranked=tuple(
            RankedEvent(
                event=int(events.rows[i]),
                h=float(h[i]),
                observables={name: float(values[i]) for name, values in observed.items()},
            )
            for i in top
        ),
        observables=tuple(
            _compare(name, observed[name], expected[name], top, in_region, yields) for name in observed
        ),
    )


def observables_of(layout: EventLayout, particles: Float32) -> dict[str, Float64]:
    """Return, per event, multiplicity and leading scale of every collection, and the scalar sum of the scale.

    A collection of one slot, such as the missing momentum, has no multiplicity and is no part of the sum.
    """
    scale = layout.features[0]
    found: dict[str, Float64] = {}
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


def _compare(
    name: str,
    observed: Float64,
    expected: Float64,
    top: NDArray[np.intp],
    in_region: NDArray[np.bool_],
    yields: Float64,
) -> ObservableComparison:
    """Compare one observable: of the observed events `top`, and of background events weighted by `yields`."""
    edges = bin_edges(name, np.concatenate([observed, expected]))
    region = yields * in_region
    return ObservableComparison(
        name=name,
        top_mean=float(observed[top].mean()),
        top_error=float(observed[top].std(ddof=1) / np.sqrt(len(top))) if len(top) > 1 else 0.0,
        region_mean=float(np.average(expected, weights=region)) if region.sum() > 0.0 else None,
        everywhere_mean=float(np.average(expected, weights=yields)),
        edges=tuple(edges.tolist()),
        top=tuple(clipped_counts(observed[top], edges).tolist()),
        region=tuple(clipped_counts(expected, edges, region).tolist()),
        observed=tuple(clipped_counts(observed, edges).tolist()),
        everywhere=tuple(clipped_counts(expected, edges, yields).tolist()),
    )


def bin_edges(name: str, values: Float64, bins: int = 20) -> Float64:
    """Return one bin per number of objects; else equal bins that leave 1 % of the values to the last one."""
    if name.startswith("number of "):
        return np.asarray(np.arange(-0.5, values.max(initial=0.0) + 1.0))
    high = float(np.quantile(values, 0.99)) or 1.0
    return np.linspace(0.0, high, bins + 1)
