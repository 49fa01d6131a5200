"""The answer for an observed file in a few lines: p and Z, the nuisances, and where the excess lies."""

from __future__ import annotations

from collections.abc import Iterator

from covad.observed.result import Excess, ObservableComparison, Observation


def observation_lines(observation: Observation) -> Iterator[str]:
    """Yield the result of a file, then its nuisances, then its most unusual events."""
    result = observation.answer.line.removeprefix("result: ")
    yield f"observed {observation.file}: {observation.n_selected} events selected: {result}"
    fitted = [f"{nu.name} {nu.fitted:+.2f} +- {nu.error:.2f}" for nu in observation.nuisances]
    if fitted:
        yield f"  nuisances without an excess, in sigma: {', '.join(fitted)}"
    excess = observation.tests[0].excess
    if excess is not None:
        yield f"  where: {excess_text(excess)}"
    for warning in observation.warnings:
        yield f"  warning: {warning}"


def excess_text(excess: Excess) -> str:
    """Say how many events have the largest h, how many are expected, and what is most unusual about them."""
    told = f"{excess.n_top} events where {excess.expected:.1f} +- {excess.expected_error:.1f} are expected"
    if not excess.observables:
        return told
    first = max(excess.observables, key=_distance)
    mean = f"{first.top_mean:.3g} +- {first.top_error:.2g}"
    return f"{told}; mean {first.name} {mean}, of all events {first.everywhere_mean:.3g}"


def _distance(observable: ObservableComparison) -> float:
    """Return how far the top events are from all events, in standard errors of their mean."""
    away = abs(observable.top_mean - observable.everywhere_mean)
    return away / observable.top_error if observable.top_error > 0 else 0.0
