"""Do observed events look like the simulation at all? A comparison of every input of the encoder.

The inputs are the number of objects in each collection, and each of their features. Data and simulation are
as far apart as their cumulative distributions, by the largest difference D. It deserves a warning if it is
large and beyond doubt: D, less what systematics do to it, is more than `LARGE` and more than chance makes.

- Systematics: D between the simulation and itself at nu = +-1, summed over the nuisances, times `SIGMAS`.
- Chance: D of n events against m is beyond sqrt(log(2 / alpha) / 2 (1/n + 1/m)) with a probability of at most
  alpha (Dvoretzky, Kiefer, Wolfowitz; Massart). Objects of one event are taken to be one, so that n and m are
  those of (sum of weights)^2 / (sum of squared weights) over events. Unequal weights may crowd where few of
  the events are expected, negative ones most of all: n and m are then no more than 1/4 over the largest
  variance of the cumulative distribution.

Two more differences are looked for in features: one value that many objects have, and events outside of the
simulated range. All three together alarm in less than `3 ALPHA` of honest quantities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import Collection, EventLayout
from covad.inference.histograms import clipped_counts
from covad.nplm.dataset import Float32, Float64
from covad.storage.records import Record

#: Probability that chance alone alarms, per quantity and kind of difference.
ALPHA = 1e-7
#: Size of a difference of cumulative distributions, or of shares, that is worth a word.
LARGE = 0.05
#: Share of events outside of the simulated range that is worth a word.
OUTSIDE = 0.01
#: Standard deviations of every nuisance that may be at work in honest data.
SIGMAS = 3.0
#: Quantiles that are told.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Inputs that get a sentence of their own, those that differ most.
MOST_TOLD = 5
_BINS = 20
#: Quantiles of the values at which the variance of a cumulative distribution is looked at.
_PROBED = np.linspace(0.05, 0.95, 19)


@dataclass(frozen=True)
class Numbers(Record):
    """One quantity in one sample, over objects, or over events if it is their number of objects."""

    n: int
    mean: float
    low: float
    high: float
    quantiles: tuple[float, ...]  # those of QUANTILES
    common: float  # the most frequent value
    common_share: float

    @property
    def median(self) -> float:
        return self.quantiles[len(QUANTILES) // 2]

    @property
    def central(self) -> str:
        """Return where nine tenths of the values lie."""
        return f"{self.quantiles[0]:.3g} to {self.quantiles[-1]:.3g}"


@dataclass(frozen=True)
class Difference(Record):
    """How far data and simulation are apart, in shares: `distance` is D, `common` that of one value.

    `tolerated` is what systematics do to D, `resolved` what chance does; `words` say what is worth a warning.
    """

    distance: float
    common: float
    outside: float  # share of events with a value outside of the simulated range
    tolerated: float
    resolved: float
    words: str | None


@dataclass(frozen=True)
class Quantity(Record):
    """One input in data and simulation; `feature` is None for the number of objects in the collection.

    The histogram of the simulation is for as many events as there are in the data; what lies beyond the edges
    belongs to the outer bins. A sample without any such object has no numbers.
    """

    collection: str
    feature: str | None
    data: Numbers | None
    simulation: Numbers | None
    difference: Difference | None
    edges: tuple[float, ...] = field(repr=False)
    counts: tuple[float, ...] = field(repr=False)
    expected: tuple[float, ...] = field(repr=False)
    expected_error: tuple[float, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return (
            f"number of {self.collection}s" if self.feature is None else f"{self.collection} {self.feature}"
        )

    @property
    def excess(self) -> float:
        """Return how far the distributions are apart, beyond what systematics do."""
        return 0.0 if self.difference is None else self.difference.distance - self.difference.tolerated

    @property
    def warning(self) -> str | None:
        """Return what is to be said about this input, None if nothing."""
        found = self.difference
        if found is None or found.words is None:
            return None
        return (
            f"{self.name} does not look like the simulation: {found.words} (cumulative distributions differ "
            f"by {found.distance:.2f}, systematics at {SIGMAS:g} sigma explain {found.tolerated:.2f}); "
            "t will see it"
        )


@dataclass(frozen=True)
class InputComparison(Record):
    """All inputs of the selected events of a file beside those of the background at nu = 0."""

    n_events: int
    n_simulation: int
    n_repeated: int  # events that repeat another one, beyond those of coarse features
    quantities: tuple[Quantity, ...]

    @property
    def different(self) -> tuple[Quantity, ...]:
        """Return the inputs that do not look like the simulation."""
        return tuple(quantity for quantity in self.quantities if quantity.warning is not None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for everything that does not look like the simulation."""
        repeated = (
            f"{self.n_repeated} of the {self.n_events} selected events repeat another one "
            f"({self.n_repeated / self.n_events:.1%}): p assumes that all are independent, and t will see it"
        )
        told = [repeated] if self.n_repeated else []
        different = sorted(self.different, key=lambda quantity: -quantity.excess)
        told += [quantity.warning or "" for quantity in different[:MOST_TOLD]]
        if others := [quantity.name for quantity in different[MOST_TOLD:]]:
            told.append(f"{len(others)} more inputs do not look like the simulation: {', '.join(others)}")
        return tuple(told)


@dataclass(frozen=True)
class WeightedEvents:
    """Selected events of a simulation; only ratios of weights matter, which may be negative."""

    particles: Float32
    weights: Float64


@dataclass(frozen=True)
class Shifts:
    """Some events of the simulation, and the same with one nuisance after the other at nu = -1 and +1."""

    nominal: WeightedEvents
    pairs: tuple[tuple[WeightedEvents, WeightedEvents], ...]


def compare_inputs(
    layout: EventLayout,
    data: Float32,
    simulation: WeightedEvents,
    shifts: Shifts,
    n_repeated: int = 0,
) -> InputComparison:
    """Compare every input of observed events with the simulation, which every nuisance shifts."""
    observed = WeightedEvents(data, np.ones(len(data)))
    quantities = []
    for collection in layout.collections:
        for feature in (None, *collection.features):
            samples = observed, simulation, shifts.nominal, *(s for pair in shifts.pairs for s in pair)
            values = [_Values.of(sample, layout, collection, feature) for sample in samples]
            quantities.append(_compare(collection.name, feature, *values))
    return InputComparison(len(data), len(simulation.particles), n_repeated, tuple(quantities))


@dataclass(frozen=True)
class _Values:
    """One quantity of a sample: ascending values with their weights, and the events they come from."""

    values: Float64
    weights: Float64
    events: NDArray[np.int64]
    total: float  # weight of all events, those without such an object too

    @classmethod
    def of(
        cls, sample: WeightedEvents, layout: EventLayout, collection: Collection, feature: str | None
    ) -> _Values:
        objects = sample.particles[:, layout.slots(collection.name)]
        present = objects[..., 0] > 0
        if feature is None:
            events, values = np.arange(len(objects)), present.sum(axis=1)
        else:
            events, values = np.nonzero(present)[0], objects[present][:, layout.column(feature)]
        order = np.argsort(values)
        events = events[order]
        weights = sample.weights[events]
        return cls(values[order].astype(np.float64), weights, events, float(sample.weights.sum()))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> bool:
        """Return whether a distribution is known: the weights of the objects have a positive sum.

        So have those of the events that have such objects, each counted once.
        """
        _, firsts = np.unique(self.events, return_index=True)
        return bool(self.weights.sum() > 0.0 and self.weights[firsts].sum() > 0.0)

    @property
    def n_effective(self) -> float:
        """Return the number of independent events of equal weight that tell as much."""
        per_event = np.bincount(self.events, self.weights)
        total, spread = per_event.sum(), np.square(per_event).sum()
        if not self.alike:
            # to the share up to a value an event adds what it has there, less its part in the share of all
            for value in np.quantile(self.values, _PROBED):
                there = np.where(self.values <= value, self.weights, 0.0)
                beyond = np.bincount(self.events, there) - per_event * (there.sum() / total)
                spread = max(spread, 4.0 * np.square(beyond).sum())
        return float(total**2 / spread)

    @property
    def alike(self) -> bool:
        """Return whether all weights are the same."""
        return bool((self.weights == self.weights[0]).all())

    @property
    def n_seen(self) -> float:
        """Return the number of events with a value, or the effective one where weights differ."""
        return len(np.unique(self.events)) if self.alike else self.n_effective

    def cumulative(self, at: Float64) -> Float64:
        """Return the share of the values up to each of the points."""
        sums = np.concatenate([[0.0], np.cumsum(self.weights)])
        return np.asarray(sums[np.searchsorted(self.values, at, side="right")] / sums[-1])

    def share_of(self, value: float) -> float:
        return float(self.weights[self.values == value].sum() / self.weights.sum())

    def events_outside(self, low: float, high: float) -> tuple[int, float]:
        """Count the events with a value outside of a range, and their share of those with any value."""
        beyond = (self.values < low) | (self.values > high)
        per_event = np.zeros(int(self.events.max()) + 1)
        per_event[self.events] = self.weights
        return len(np.unique(self.events[beyond])), float(
            per_event[np.unique(self.events[beyond])].sum() / per_event.sum()
        )

    def numbers(self) -> Numbers | None:
        if not self.known:
            return None
        distinct, inverse = np.unique(self.values, return_inverse=True)
        shares = np.bincount(inverse, self.weights) / self.weights.sum()
        places = np.searchsorted(np.maximum.accumulate(np.cumsum(shares)), QUANTILES)
        return Numbers(
            n=len(self),
            mean=float(np.average(self.values, weights=self.weights)),
            low=float(distinct[0]),
            high=float(distinct[-1]),
            quantiles=tuple(distinct[np.minimum(places, len(distinct) - 1)].tolist()),
            common=float(distinct[np.argmax(shares)]),
            common_share=float(shares.max()),
        )


def distance(one: _Values, other: _Values) -> float:
    """Return the largest difference of two cumulative distributions."""
    at = np.unique(np.concatenate([one.values, other.values]))
    return float(np.abs(one.cumulative(at) - other.cumulative(at)).max())


def resolved_distance(n: float, m: float) -> float:
    """Return the distance that samples of n and m events of one distribution exceed with `ALPHA` at most."""
    return float(np.sqrt(np.log(2.0 / ALPHA) / 2.0 * (1.0 / n + 1.0 / m)))


def _compare(
    collection: str,
    feature: str | None,
    data: _Values,
    simulation: _Values,
    unshifted: _Values,
    *shifted: _Values,
) -> Quantity:
    difference = None
    if data.known and simulation.known:
        difference = _difference(
            feature, data, simulation, unshifted, list(zip(shifted[::2], shifted[1::2], strict=True))
        )
    edges = _edges(feature, [sample for sample in (data, simulation) if len(sample)])
    weights = simulation.weights * (data.total / simulation.total)
    return Quantity(
        collection,
        feature,
        data.numbers(),
        simulation.numbers(),
        difference,
        edges=tuple(edges.tolist()),
        counts=tuple(clipped_counts(data.values, edges).tolist()),
        expected=tuple(clipped_counts(simulation.values, edges, weights).tolist()),
        expected_error=tuple(np.sqrt(clipped_counts(simulation.values, edges, weights**2)).tolist()),
    )


def _difference(
    feature: str | None,
    data: _Values,
    simulation: _Values,
    unshifted: _Values,
    shifts: Sequence[tuple[_Values, _Values]],
) -> Difference:
    """Judge one quantity of which both samples have values."""
    told, expected = data.numbers(), simulation.numbers()
    if told is None or expected is None:
        raise ValueError("a sample without values cannot be judged")

    def moved(measure: Iterable[Sequence[float]]) -> float:
        return min(1.0, SIGMAS * sum(max(0.0, *pair) for pair in measure if pair))

    pairs = [[shifted for shifted in pair if shifted.known and unshifted.known] for pair in shifts]
    tolerated = moved([distance(unshifted, shifted) for shifted in pair] for pair in pairs)
    resolved = resolved_distance(data.n_effective, simulation.n_effective)
    found = distance(data, simulation)
    common = outside = 0.0
    facts: list[str] = []
    if feature is not None:
        span = expected.low, expected.high
        common = max(0.0, told.common_share - simulation.share_of(told.common))
        n_outside, outside = data.events_outside(*span)
        drift = moved([shifted.events_outside(*span)[1] for shifted in pair] for pair in pairs)
        # of n events, k are beyond the largest or below the smallest of m with about 2 (n / (n + m))^(k / 2)
        n, m = data.n_seen, simulation.n_seen
        by_chance = 2.0 * (n / (n + m)) ** (n_outside / 2)
        # the share of one value is a difference of two points of the cumulative distribution
        if common - 2.0 * tolerated > max(LARGE, 2.0 * resolved):
            facts.append(_common_words(told, expected, simulation.share_of(told.common)))
        elif outside - drift > OUTSIDE and by_chance < ALPHA:
            facts.append(
                f"{outside:.1%} of the events that have one are outside of the simulated range "
                f"{expected.low:.4g} to {expected.high:.4g}, the data go from {told.low:.4g} to "
                f"{told.high:.4g}"
            )
    if not facts and found - tolerated > max(LARGE, resolved):
        facts.append(
            f"mean {told.mean:.4g} and 90 % of it within {told.central}, where the simulation has "
            f"{expected.mean:.4g} and {expected.central}"
        )
    return Difference(found, common, outside, tolerated, resolved, facts[0] if facts else None)


def _common_words(data: Numbers, simulation: Numbers, simulated_share: float) -> str:
    where = f"the simulation goes from {simulation.low:.4g} to {simulation.high:.4g}"
    if data.low == data.high:
        return f"it is {data.common:.4g} in all {data.n} objects of the data, {where}"
    return (
        f"it is exactly {data.common:.4g} in {data.common_share:.1%} of the objects of the data and in "
        f"{simulated_share:.1%} of the simulated ones, {where}"
    )


def _edges(feature: str | None, samples: Sequence[_Values]) -> Float64:
    """Return one bin per number of objects; else equal bins for nearly all of either sample."""
    if feature is None:
        return np.arange(-0.5, max(float(sample.values.max()) for sample in samples) + 1.0)
    ends = [np.quantile(sample.values, (0.01, 0.99)) for sample in samples] or [np.array([0.0, 1.0])]
    low, high = min(float(end[0]) for end in ends), max(float(end[1]) for end in ends)
    return np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
