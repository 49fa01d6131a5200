"""Are there enough events after the cuts? Estimates tell in the trial, then counts (`selected`).

Splits and samples are given before the cuts, but toys draw from what the cuts leave, at every nu. A pool that
is too small would otherwise be noticed after the training.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from covad.errors import TooFewEventsError
from covad.events.processes import BACKGROUND
from covad.nplm.settings import ConvexSettings
from covad.pipeline.checks import BINS
from covad.runs.collisions import CollisionData
from covad.runs.selected import WeightSums
from covad.settings import Nu
from covad.study.plan import draws
from covad.toys.drawing import largest_number
from covad.toys.ensembles import Draw
from covad.toys.truths import nu_text

log = logging.getLogger(__name__)

#: Events that every batch must have, so that two of them are of one process.
_BATCH = 8
#: Standard deviations by which the number of events in a batch may fall below its mean.
_LUCK = 6.0
#: Events in the part of the response's split that judges its fit, and in each bin of the checks.
_JUDGES, _PER_BIN = 50, 20
#: Standard errors of an estimate by which a shortfall is certain, and within which it is worth a word.
_CERTAIN = 5.0


class EventCounts(Protocol):
    """How many events of a role (a split or a signal) pass the cuts at nu, and how well that is known.

    `weights` are None for events without weights.
    """

    def selected(self, role: str, nu: Nu) -> float: ...
    def error(self, role: str, nu: Nu) -> float: ...
    def weights(self, role: str, nu: Nu) -> WeightSums | None: ...


@dataclass(frozen=True)
class Efficiencies:
    """Estimates from a few events of every sample: passed of tried, by sample and nu, and their weights."""

    data: CollisionData
    passed: dict[str, dict[Nu, int]]
    tried: dict[str, int]
    sums: dict[str, dict[Nu, WeightSums]] = field(default_factory=dict)

    def selected(self, role: str, nu: Nu) -> float:
        return given(self.data, role) * self._share(role, nu)

    def error(self, role: str, nu: Nu) -> float:
        """Return the binomial error; one event more or less is never excluded."""
        n, share = self.tried[self._sample(role)], self._share(role, nu)
        return given(self.data, role) * math.sqrt(max(share * (1.0 - share), 1.0 / n) / n)

    def weights(self, role: str, nu: Nu) -> WeightSums | None:
        sample = self._sample(role)
        if sample not in self.sums:
            return None
        return self.sums[sample][nu].scaled(given(self.data, role) / self.tried[sample])

    def _share(self, role: str, nu: Nu) -> float:
        sample = self._sample(role)
        return self.passed[sample][nu] / self.tried[sample]

    def _sample(self, role: str) -> str:
        return role if role in self.passed else BACKGROUND


@dataclass(frozen=True)
class Need:
    """Events of a role at nu that a run needs after the cuts, and what for."""

    role: str
    nu: Nu
    events: float
    purpose: str
    remedy: str


def given(data: CollisionData, role: str) -> int:
    """Return the events of a split or a signal before the cuts."""
    if role not in data.samples or role == BACKGROUND:
        return int(getattr(data.source.splits, role))
    simulated = data.samples[role].simulate
    if simulated is not None:
        return simulated
    with data.open_files(role, verify=False) as files:
        return len(files)


def needs(data: CollisionData, counts: EventCounts) -> Iterator[Need]:
    """Yield what toys draw at most, and the least that fits and checks can do with."""
    study, source = data.study, data.source
    centre = tuple(0.0 for _ in source.nuisances)
    judged = math.ceil(_JUDGES / source.response.validation_share)
    yield Need("response", centre, judged, "the fit of the response takes", "")
    yield Need("check", centre, BINS * _PER_BIN, "the checks take", "")
    bumps = (study.tests.convex or ConvexSettings()).bumps
    yield Need("basis", centre, bumps, "the convex test takes", "lower tests.convex.bumps")
    if (adaptive := study.tests.adaptive) is not None:
        largest_scale = max(adaptive.bumps)
        yield Need("basis", centre, largest_scale, "the adaptive test takes", "lower tests.adaptive.bumps")
    largest: dict[tuple[str, Nu], tuple[float, str]] = {}
    for draw in (draw for configuration in study.configurations for draw in draws(study, configuration)):
        drawn = [("reference", centre, float(draw.n_reference), "sizes.reference")]
        roles = [("data", draw.largest.expected_background, _decides(draw))]
        if draw.signal is not None:
            roles.append((draw.signal, draw.injected, f"signals.{draw.signal}"))
        for role, expected, key in roles:
            ratio = _yield_ratio(counts, role, draw.nu, centre)
            drawn.append((role, draw.nu, largest_number(expected * ratio), key))
        for role, nu, events, key in drawn:
            largest[role, nu] = max(largest.get((role, nu), (0.0, key)), (events, key))
    for (role, nu), (events, key) in largest.items():
        yield Need(
            role, nu, events, "a toy takes" if role == "reference" else "a toy takes up to", f"lower {key}"
        )


def _decides(draw: Draw) -> str:
    """Return what makes toys of this draw as large as they are."""
    if draw.prior:
        return "sizes.expected or normalisation, or set prior to false"
    return "sizes.expected or the largest nu_norm" if draw.nu_norm > 0 else "sizes.expected"


def _yield_ratio(counts: EventCounts, role: str, nu: Nu, centre: Nu) -> float:
    """Return the yield at nu relative to nu = 0."""
    here, there = counts.weights(role, nu), counts.weights(role, centre)
    if here is not None and there is not None and there.total > 0:
        return here.total / there.total
    return counts.selected(role, nu) / max(counts.selected(role, centre), 1.0)


@dataclass(frozen=True)
class _Left:
    """Events that serve a need: a number to go by, its limits, and how it follows from the selected ones."""

    events: float
    least: float
    most: float
    told: str = ""


def _left(need: Need, counts: EventCounts) -> _Left:
    """Return what is left of the selected events for a need.

    Events with weights count as fewer in fits and checks. Data, signals and the events of the bumps are drawn
    by their weights, each once. Negative weights are smoothed before, and what is left of them is known when
    the pools are made; nothing is refused for them here. A reference keeps its weights.
    """
    selected, weights = counts.selected(need.role, need.nu), counts.weights(need.role, need.nu)
    doubt = _CERTAIN * counts.error(need.role, need.nu)
    if weights is None or need.role == "reference":
        return _Left(selected, selected - doubt, selected + doubt)
    relative = doubt / max(selected, 1.0)
    if doubt:  # the sums of weights are estimates too
        relative += _CERTAIN / math.sqrt(max(weights.effective, 1.0))
    if need.role in ("response", "check"):
        left = min(weights.effective, selected)
        least, most, told = left, left, f", and count as {left:.0f} events without weights"
    else:
        left = min(weights.accepted, selected)
        least = left
        most = selected if weights.signed else min(left + _CERTAIN * math.sqrt(left), selected)
        told = (
            f", which count as {weights.effective:.0f} without weights and of which drawing by weight leaves "
            f"about {left:.0f}"
        )
    return _Left(left, least * (1.0 - relative), most * (1.0 + relative), told)


def check_needs(data: CollisionData, counts: EventCounts) -> None:
    """Raise TooFewEventsError if the cuts leave too few events; say if an estimate cannot tell.

    Of every role that nu is told at which most is lacking.
    """
    worst: dict[str, tuple[float, Need]] = {}
    for need in needs(data, counts):
        lacking = need.events / max(_left(need, counts).events, 1.0)
        if lacking > worst.get(need.role, (0.0, need))[0]:
            worst[need.role] = lacking, need
    for _, need in worst.values():
        left = _left(need, counts)
        if left.least >= need.events:
            continue
        sentence = _sentence(data, need, counts, left)
        if left.most < need.events:
            raise TooFewEventsError(sentence)
        stage = "events" if counts.error(need.role, need.nu) else "pools"
        log.warning("perhaps too few events, which the stage '%s' will count: %s", stage, sentence)
    if data.source.learned:
        _check_batch(data, counts)


def _sentence(data: CollisionData, need: Need, counts: EventCounts, left: _Left) -> str:
    selected, error = counts.selected(need.role, need.nu), counts.error(need.role, need.nu)
    n = given(data, need.role)
    split = need.role in type(data.source.splits).model_fields
    key, change = f"source.signals.{need.role}", "give it more events"
    if split:
        key, change = f"source.splits.{need.role}", "raise it"
    if 0 < left.events < need.events:
        change += f"{' to' if split else ','} {_rounded_up(n * need.events / left.events)}"
    about = f"{selected:.0f}" if error == 0 else f"about {selected:.0f} +- {max(error, 1.0):.0f}"
    remedies = ", or ".join(part for part in (change, need.remedy, "loosen source.cuts") if part)
    at = nu_text(need.nu, data.source.nuisances)
    return (
        f"{key}: of {n} events {about} pass the cuts at {at}{left.told}, but {need.purpose} "
        f"{math.ceil(need.events)}: {remedies}"
    )


def _check_batch(data: CollisionData, counts: EventCounts) -> None:
    """Raise if the cuts leave too little of a batch for the contrastive loss."""
    centre = tuple(0.0 for _ in data.source.nuisances)
    batch, n = data.source.training.batch, given(data, "encoder")
    share, weights = counts.selected("encoder", centre) / n, counts.weights("encoder", centre)
    if weights is not None and weights.offered:  # batches are drawn by the size of the weights
        share = weights.sizes / weights.offered
    most = min(share + _CERTAIN * counts.error("encoder", centre) / n, 1.0)
    # the mean m of a batch must satisfy m - luck sqrt(m (1 - share)) >= _BATCH, a quadratic in its root
    spread = _LUCK * math.sqrt(1.0 - most)
    needed = (0.5 * (spread + math.sqrt(spread**2 + 4.0 * _BATCH))) ** 2
    if batch * most < needed:
        enough = f" to {_rounded_up(needed / share)}" if share else ""
        raise TooFewEventsError(
            f"source.training.batch: of {batch} events {batch * share:.1f} pass the cuts on average, but the "
            f"contrastive loss takes {math.ceil(needed)}: raise it{enough}, or loosen source.cuts"
        )


def _rounded_up(number: float) -> int:
    """Return two digits, rounded up."""
    unit = 10.0 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return int(math.ceil(number / unit) * unit)
