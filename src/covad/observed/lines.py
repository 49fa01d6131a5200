"""The answer for an observed file in a few lines: p and Z, the nuisances, and where the excess lies."""

from __future__ import annotations

from collections.abc import Iterator

from covad.inference.verdict import Verdict
from covad.observed.result import Excess, ObservableComparison, Observation
from covad.results.overview import closure_of_rule
from covad.results.summary import Summary

#: Z below which there is no excess whose place is worth a line.
LEAST_Z = 1.0
#: Nuisances that a line has.
TOLD_NUISANCES = 6


def observation_lines(observation: Observation, summary: Summary) -> Iterator[str]:
    """Yield the result of a file and whether it may be quoted, its nuisances, its most unusual events."""
    result = observation.answer.line.removeprefix("result: ")
    doubt = "" if observation.p is None else doubt_text(observation, summary)
    yield (
        f"observed {observation.file} ({question_text(observation, summary)}): "
        f"{observation.n_selected} events selected: {result}{doubt and f'; {doubt}'}"
    )
    nuisances, title = observation.nuisances, "nuisances without an excess, in sigma"
    if len(nuisances) > TOLD_NUISANCES:
        nuisances = observation.ranked_nuisances[:TOLD_NUISANCES]
        title = f"leading {TOLD_NUISANCES} of {len(observation.nuisances)} {title}"
    fitted = [f"{nu.name} {nu.fitted:+.2f} +- {nu.error:.2f}" for nu in nuisances]
    if fitted:
        yield f"  {title}: {', '.join(fitted)}"
    excess = observation.tests[0].excess
    if excess is not None and observation.z is not None and observation.z >= LEAST_Z:
        yield f"  where: {excess_text(excess)}"
    for warning in observation.warnings:
        yield f"  warning: {warning}"


def question_text(observation: Observation, summary: Summary) -> str:
    """Say what was asked: the configuration; yield and auxiliary values where they are not the default."""
    default = {line.configuration: line.expected for line in summary.configurations}
    told = [observation.label]
    if observation.expected != default.get(observation.configuration):
        told.append(f"{observation.expected:g} expected")
    told += [f"auxiliary {nu.name} {nu.auxiliary:+.3g}" for nu in observation.nuisances if nu.auxiliary]
    return "; ".join(told)


def doubt_text(observation: Observation, summary: Summary) -> str:
    """Say why p must not, or not yet, be quoted; nothing where it may."""
    overview = closure_of_rule(summary, observation.rule, observation.configuration)
    verdict = None if overview is None else overview.verdict
    if verdict is Verdict.DOES_NOT_CLOSE:
        return "do not quote this p: the test does not close in this configuration"
    if (signs := observation.off_by_signs) is not None:
        return f"t of its toys is larger than that of observed data by {signs.text}"
    if verdict is Verdict.CLOSES:
        return ""
    return "closure is not shown yet in this configuration: this p may not be calibrated"


def excess_text(excess: Excess) -> str:
    """Say how many events have the largest h, and what is most unusual about them.

    The background beside them is that of their region, which the fit chose for them.
    """
    told = (
        f"the {excess.n_top} events of largest h; the fit chose them, so that they are more than the "
        f"{excess.expected:.1f} +- {excess.expected_error:.1f} expected there even without a signal"
    )
    known = [(line, line.region_mean) for line in excess.observables if line.region_mean is not None]
    if not known:
        return told
    first, there = max(known, key=lambda each: _distance(*each))
    mean = f"{first.top_mean:.3g} +- {first.top_error:.2g}"
    return f"{told}; their mean {first.name} is {mean}, that of the background there {there:.3g}"


def _distance(observable: ObservableComparison, there: float) -> float:
    """Return how far the top events are from the background there, in standard errors of their mean."""
    away = abs(observable.top_mean - there)
    return away / observable.top_error if observable.top_error > 0 else 0.0
