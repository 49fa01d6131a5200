"""What `compare` is given, read and checked: two samples, weights, yield, nuisances.

Whatever cannot be tested ends in a DatasetError of one sentence, before anything is fitted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covad.errors import DatasetError
from covad.inference.nuisances import LARGEST_AUXILIARY
from covad.nplm.dataset import Float32, Float64, Normalisation, check_correlation
from covad.nplm.scale import RobustScale
from covad.nplm.settings import FEWEST_EXPECTED, MOST_EXPECTED, SIGMAS

#: (g of the reference, g of the data), or a function of the points: (events, K) each.
ResponseLike = tuple[ArrayLike, ArrayLike] | Callable[[Float64], ArrayLike]

#: The log density that changes by more for one sigma of a nuisance is in wrong units.
LARGEST_RESPONSE = 20.0
#: Share of events that stand more than once from which it matters: of the reference, copies are refused; of
#: the data, they are worth a word. The same of data that are events of the reference.
REPEATED = 0.01
#: Repeated values of a single column are told from coarse ones in stretches of so many, over their share; at
#: least so many are needed for it.
_STRETCH, _FEWEST_REPEATED = 10.0, 50
#: A reference of so many times the data needs no word; toys have checked the law of t from there on.
SMALLEST_RATIO = 2.0
#: Coordinates are standardised and then held within this, so that float32 can square them.
FARTHEST = 1e6
#: Range of a column, relative to its largest value, which is rounding only.
_ROUNDING = 1e-12
#: Distance, in standard deviations, below which two events in two or more dimensions are copies: a copy may
#: have lost digits.
_COPY = 1e-5


@dataclass(frozen=True)
class Coordinates:
    """The user's coordinates, standardised on the reference before they lose digits in float32.

    The standardisation is robust: a far event must not squeeze all others together.
    """

    scale: RobustScale
    names: list[Any] | None  # of the columns, where the reference is a frame

    @classmethod
    def of(cls, reference: Float64, names: list[Any] | None) -> Coordinates:
        """Raise DatasetError if a column of the reference is constant."""
        largest = np.abs(reference).max(axis=0)
        unit = np.where(largest > 0, largest, 1.0)  # so that the squares of huge numbers are finite
        found = RobustScale.of(reference / unit)
        constant = np.ptp(reference / unit, axis=0) <= _ROUNDING
        for column in np.flatnonzero(constant | ~(found.scale > 0)):
            raise DatasetError(f"column {column} of the reference is constant: leave it out")
        return cls(replace(found, location=found.location * unit, scale=found.scale * unit), names)

    def __call__(self, points: Float64) -> Float32:
        return np.clip(self.scale.linear(points), -FARTHEST, FARTHEST).astype(np.float32)

    def read(self, values: Any, name: str) -> Float64:
        """Return points in these coordinates; the columns of a frame are matched by name."""
        points = read_points(_ordered(values, self.names, name), name)
        if points.shape[1] != len(self.scale.location):
            raise DatasetError(
                f"{name}: {points.shape[1]} columns were given, the reference has {len(self.scale.location)}"
            )
        return points


def read_points(values: Any, name: str) -> Float64:
    """Return (events, dimensions) from an array, a list or a frame; a list of numbers is one column."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DatasetError(f"{name}: there are masked values, leave these events out first")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "buif" and array.dtype != object:
            raise DatasetError(f"{name}: real numbers were expected, not {array.dtype}")
        points = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as failure:
        reason = str(failure).splitlines()[0]
        raise DatasetError(f"{name}: an array of numbers was expected ({reason})") from failure
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or 0 in points.shape:
        raise DatasetError(f"{name}: (events, dimensions) were expected, not the shape {points.shape}")
    if not np.isfinite(points).all():
        row, column = np.argwhere(~np.isfinite(points))[0]
        raise DatasetError(f"{name}: the value in row {row}, column {column} is not finite")
    return points


def read_samples(reference: Any, data: Any) -> tuple[Coordinates, Float64, Float64]:
    """Return the coordinates, and both samples in them."""
    first = read_points(reference, "reference")
    if len(first) < 4:
        raise DatasetError(f"reference: {len(first)} events cannot be compared with anything")
    coordinates = Coordinates.of(first, _names(reference))
    return coordinates, first, coordinates.read(data, "data")


def _names(values: Any) -> list[Any] | None:
    """Return the names of a frame's columns (pandas, polars, Arrow), None for what has none."""
    names = getattr(values, "column_names", None)
    names = getattr(values, "columns", None) if names is None else names
    return None if names is None else list(names)


def _ordered(values: Any, names: list[Any] | None, name: str) -> Any:
    """Return a frame with its columns in the order of `names`; what is no frame stays as it is."""
    found = _names(values)
    if found is None or names is None or found == names:
        return values
    if len(set(map(str, found))) != len(found) or set(found) != set(names):
        raise DatasetError(f"{name}: the columns {found} are not those of the reference, {names}")
    return values.select(names) if hasattr(values, "select") else values[names]


def read_weights(weights: ArrayLike | None, n_events: int) -> Float64:
    """Return positive weights whose largest is one."""
    if weights is None:
        return np.ones(n_events)
    values = read_points(weights, "weights")
    if values.shape != (n_events, 1):
        raise DatasetError(
            f"weights: {n_events} were expected, one per reference event, not {np.shape(weights)}"
        )
    if not (values > 0).all():
        row = int(np.argmin(values[:, 0] > 0))
        raise DatasetError(f"weights: they must be positive, but that of row {row} is {values[row, 0]:g}")
    found: Float64 = values[:, 0] / values.max()
    if not (found > 0).all():
        raise DatasetError("weights: the smallest is zero beside the largest")
    return found


def read_yield(expected: Any, normalisation: Any) -> Normalisation | None:
    """Return the nuisance of the yield: free without `expected`, None where `expected` is exact."""
    if expected is None:
        if normalisation is not None:
            raise DatasetError("normalisation: it needs expected, without which the yield floats freely")
        return Normalisation(np.inf)
    number = float("nan") if isinstance(expected, bool) or not isinstance(expected, Real) else float(expected)
    if not FEWEST_EXPECTED <= number <= MOST_EXPECTED:
        raise DatasetError(
            f"expected: a number of events from {FEWEST_EXPECTED:g} to {MOST_EXPECTED:g} was expected, not "
            f"{expected!r}"
        )
    if normalisation is None:
        return None
    both = normalisation if isinstance(normalisation, tuple | list) else (normalisation, 0.0)
    if len(both) != 2 or not all(isinstance(x, Real) for x in both):
        raise DatasetError(f"normalisation: sigma or (sigma, measured) was expected, not {normalisation!r}")
    sigma, value = float(both[0]), float(both[1])
    if not SIGMAS[0] <= sigma <= SIGMAS[1]:
        raise DatasetError(
            f"normalisation: a sigma of the log yield from {SIGMAS[0]:g} to {SIGMAS[1]:g} was expected, not "
            f"{sigma:g}; leave it out for an exact yield, or leave out expected for a free one"
        )
    if not abs(value) <= LARGEST_AUXILIARY * sigma:
        raise DatasetError(
            f"normalisation: the measured log yield must lie within {LARGEST_AUXILIARY:g} sigma of zero, "
            f"which is {LARGEST_AUXILIARY * sigma:g}, not at {value:g}; change expected instead"
        )
    return Normalisation(sigma, value)


def read_response(
    response: ResponseLike | None, reference: Float64, data: Float64
) -> tuple[Float64, Float64]:
    """Return g of both samples, (events, K); K = 0 without a response."""
    if response is None:
        return np.zeros((len(reference), 0)), np.zeros((len(data), 0))
    if callable(response):
        found = tuple(
            _columns_of(_called(response, sample.copy()), len(sample), name)
            for name, sample in (("reference", reference), ("data", data))
        )
        _check_function(response, (reference, data), found)
    elif isinstance(response, tuple | list) and len(response) == 2:
        first, second = response
        second = _ordered(second, _names(first), "response of the data")
        found = _columns_of(first, len(reference), "reference"), _columns_of(second, len(data), "data")
    else:
        raise DatasetError("response: (g_reference, g_data) or a function of the points was expected")
    if found[0].shape[1] != found[1].shape[1]:
        raise DatasetError(
            f"response: that of the reference has {found[0].shape[1]} nuisances, "
            f"that of the data {found[1].shape[1]}"
        )
    largest = max(float(np.abs(g).max()) for g in found)
    if largest > LARGEST_RESPONSE:
        raise DatasetError(
            f"response: g is the change of the log density for one sigma, and reaches {largest:.3g}; "
            f"at most {LARGEST_RESPONSE:g} was expected"
        )
    return found[0], found[1]


def _called(response: Callable[[Float64], ArrayLike], points: Float64) -> ArrayLike:
    """Return what a user's function says; whatever it raises, sys.exit too, is an error."""
    try:
        return response(points)
    except (Exception, SystemExit) as failure:
        raise DatasetError(f"response: the function raised {type(failure).__name__}: {failure}") from failure


def _columns_of(answer: Any, n_events: int, name: str) -> Float64:
    g = read_points(answer, f"response of the {name}")
    if len(g) != n_events:
        raise DatasetError(f"response of the {name}: {len(g)} rows for {n_events} events")
    return g


def _check_function(
    response: Callable[[Float64], ArrayLike],
    samples: tuple[Float64, Float64],
    answers: tuple[Float64, ...],
) -> None:
    """Raise DatasetError if g of an event depends on the events beside it."""
    some = [slice(0, 50), slice(0, 50)]
    mixed = np.concatenate([sample[rows] for sample, rows in zip(samples, some, strict=True)])
    expected = np.concatenate([answer[rows] for answer, rows in zip(answers, some, strict=True)])
    again = _columns_of(_called(response, mixed), len(mixed), "first events")
    if again.shape != expected.shape or not np.allclose(again, expected, rtol=1e-4, atol=1e-7):
        raise DatasetError("response: the function gives other values for the same events in another array")


def read_measured(measured: ArrayLike | None, n_nuisances: int) -> Float64:
    """Return the auxiliary values, zero by default."""
    if measured is None:
        return np.zeros(n_nuisances)
    if n_nuisances == 0:
        raise DatasetError("measured: these values belong to nuisances, give their response, too")
    values = read_points(np.atleast_1d(np.asarray(measured)), "measured")
    if values.shape != (n_nuisances, 1):
        raise DatasetError(f"measured: {n_nuisances} values were expected, not {len(values)}")
    if not (np.abs(values) <= LARGEST_AUXILIARY).all():
        raise DatasetError(
            f"measured: numbers of sigma from {-LARGEST_AUXILIARY:g} to {LARGEST_AUXILIARY:g} were expected, "
            f"not {float(values[np.argmax(np.abs(values)), 0]):g}: the response describes small shifts only"
        )
    return values[:, 0]


def read_correlation(correlation: ArrayLike | None, n_nuisances: int) -> Float64 | None:
    """Return the correlation matrix of the auxiliary measurements, None if they are independent."""
    if correlation is None:
        return None
    try:
        matrix = np.array(correlation, dtype=np.float64)
    except (TypeError, ValueError) as failure:
        raise DatasetError(f"correlation: a matrix of numbers was expected ({failure})") from failure
    try:
        check_correlation(matrix, n_nuisances)
    except DatasetError as failure:
        raise DatasetError(f"correlation: {failure}") from failure
    return matrix


def read_seed(seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise DatasetError(f"seed: a whole number from 0 on was expected, not {seed!r}")
    return number


def check_copies(coordinates: Coordinates, reference: Float64, data: Float64) -> Iterator[str]:
    """Raise DatasetError if the data are events of the reference, or the reference holds copies of its own.

    Warn of data that stand more than once. Coarse values repeat by themselves, those of the reference tell
    how often; nothing is said of coarse integers.
    """
    rows, others = (_event_hashes(coordinates, sample) for sample in (reference, data))
    repeated, repeated_data = (1.0 - len(np.unique(found)) / len(found) for found in (rows, others))
    copies = count_copies(reference)
    whole = all((sample == np.round(sample)).all() for sample in (reference, data))
    if whole and repeated > REPEATED and not copies:
        return
    shared = int(np.isin(others, rows).sum())
    if shared > max(REPEATED, 3.0 * repeated) * len(others):
        raise DatasetError(
            f"{shared} of {len(others)} data events are events of the reference: "
            "the samples must be independent"
        )
    if copies:
        raise DatasetError(
            f"reference: {copies} of {len(reference)} events are copies of another one, which makes p too "
            "small: leave them out, and add their weights to those of the events that stay"
        )
    again = round(repeated * len(rows))
    if REPEATED * len(rows) < again < _FEWEST_REPEATED:  # too few to tell whether they were copied
        yield (
            f"{again} of {len(rows)} reference events repeat another one: if they were copied, p is too small"
        )
    if shared and repeated <= REPEATED:
        yield f"{shared} data events are events of the reference: the samples should be independent"
    if repeated_data > max(REPEATED, 3.0 * repeated):
        yield (
            f"{100 * repeated_data:.1f} % of the data events repeat another one, those of the reference do "
            "not: t will see it"
        )


def count_copies(points: Float64) -> int:
    """Return how many events are copies of another one; 0 if less than 1 % of the different events have any.

    Equal events are copies if they share a value that no other event has, in a column of which coarseness is
    no reason to repeat, and in no column of which it is. Events that are alike in round numbers are no
    copies, nor are those that all have the one value of a missing object: that is one event among many.
    """
    _, group, size = np.unique(row_hashes(points), return_inverse=True, return_counts=True)
    if (size > 1).mean() <= REPEATED:
        return 0
    alone, coarse = np.zeros((2, len(size)), dtype=bool)  # by different event
    for column in points.T:
        values, place, count = np.unique(column, return_inverse=True, return_counts=True)
        own = group[count[place] == size[group]]
        (coarse if _is_coarse(values, count) else alone)[own] = True
    copied = alone & ~coarse & (size > 1)
    return int((size[copied] - 1).sum()) if copied.mean() > REPEATED else 0


def _is_coarse(values: Float64, count: NDArray[np.intp]) -> bool:
    """Return whether ascending values, with how often each occurs, repeat because they have few digits.

    Values of few digits have gaps of at least one digit, and if a share s of them repeats, that is at least
    about 2 s of a typical gap. Among continuous values gaps have any size: in a stretch of 10 / s of them
    the smallest is about s / 7 of the typical one.
    """
    share = float((count > 1).mean())
    if share * len(values) < _FEWEST_REPEATED:
        return True
    length = max(round(_STRETCH / share), 50)
    stretches = np.array_split(np.diff(values), max(len(values) // length, 1))
    return float(np.mean([gaps.min() / np.median(gaps) for gaps in stretches])) > 0.5 * share


def small_reference(n_reference: float, n_data: float) -> str | None:
    """Return what a reference of so few events costs; None if it is at least twice as large as the data.

    The score of the data has the variance F, that of the reference adds F N_D / N_R. A signal is as
    significant as without that if it is larger by the root of their sum.
    """
    if n_reference >= SMALLEST_RATIO * n_data:
        return None
    added = n_data / n_reference
    return (
        f"the reference is worth {n_reference:.0f} events, fewer than twice the {n_data:.0f} data: its "
        f"fluctuations add {100 * added:.0f} % to the variance of the data, so that a signal must be "
        f"{np.sqrt(1.0 + added):.2f} times as large for the same Z; use more reference events"
    )


def count_shared(coordinates: Coordinates, reference: Float64, others: Float64) -> int:
    """Return how many of the others are events of the reference."""
    rows, found = (_event_hashes(coordinates, sample) for sample in (reference, others))
    return int(np.isin(found, rows).sum())


def _event_hashes(coordinates: Coordinates, points: Float64) -> NDArray[np.uint64]:
    """Return 64 bits per event: equal for copies, also of fewer digits if there are several dimensions.

    In one dimension different events may lie that close, and only equal values are copies.
    """
    if points.shape[1] > 1:
        points = np.round(coordinates.scale.linear(points) / _COPY)
    return row_hashes(points)


def row_hashes(points: Float64) -> NDArray[np.uint64]:
    """Return 64 bits per row: equal rows have equal ones, and different rows practically never."""
    bits = np.ascontiguousarray(points + 0.0).view(np.uint64)  # + 0.0: minus zero is zero
    factors = np.asarray(np.random.default_rng(0).integers(2**63, size=bits.shape[1])).astype(np.uint64)
    factors = 2 * factors + 1
    mixed = bits * factors
    mixed ^= mixed >> np.uint64(29)
    return np.asarray((mixed * factors[::-1]).sum(axis=1), dtype=np.uint64)
