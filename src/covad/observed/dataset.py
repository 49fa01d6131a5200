"""Observed and background events as the tests need them: selected, embedded, with their response."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import encode
from covad.errors import EventContentError, LayoutError, TooFewEventsError
from covad.events.files import open_events
from covad.events.layout import EventLayout, Events, concatenate
from covad.events.processes import BACKGROUND
from covad.events.selection import Selection
from covad.events.systematics import shift_events
from covad.events.systematics.variation import BadEventError
from covad.events.weights import effective_number
from covad.inference.inputs import Shifts, WeightedEvents
from covad.nplm.dataset import Dataset, Float32, Float64, Normalisation, Response
from covad.observed.run import FinishedRun
from covad.runs.collisions import CollisionData
from covad.runs.models import response_of
from covad.study.systematics import NORMALISATION
from covad.toys.ensembles import Treatment
from covad.toys.pools import LatentEvents

#: Background events that are looked at again, and the stretches of the files that they come from.
BACKGROUND_EVENTS = 50_000
STRETCHES = 50
#: Background events that show what systematics do; those of the user may take their time.
SHIFTED_EVENTS = 10_000


@dataclass(frozen=True)
class ObservedEvents:
    """The selected events of a file, and the number of each in it."""

    layout: EventLayout
    particles: Float32
    rows: NDArray[np.int64]
    n_file: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class BackgroundSample:
    """Selected background events at nu = 0, and some of them shifted."""

    layout: EventLayout
    nominal: WeightedEvents
    shifts: Shifts

    @classmethod
    def of(cls, data: CollisionData, events: Events) -> BackgroundSample:
        """Shift and cut events as the study does."""

        def at(nu: NDArray[np.float64], events: Events) -> WeightedEvents:
            # what separate samples do is left out: it would need their events
            shifted = shift_events(events, data.acting, nu.tolist(), data.selection)
            return WeightedEvents(shifted.events.particles, shifted.weights)

        directions = np.eye(len(data.systematics))
        nominal = at(0.0 * directions[0], events)
        if not len(nominal.particles):
            raise TooFewEventsError(
                f"none of {len(events)} background events passes the cuts of the study: loosen source.cuts"
            )
        weights, n_shifted = nominal.weights, float(SHIFTED_EVENTS)
        if events.weights is not None:
            if weights.sum() <= 0.0:
                raise TooFewEventsError(
                    f"the weights of {len(weights)} background events add up to {weights.sum():.3g}, where a "
                    "positive yield is needed: raise source.splits.reference"
                )
            # as many as tell as much as that many of equal weight
            n_shifted *= len(weights) / effective_number(weights)
        some = events[:: math.ceil(len(events) / n_shifted)]
        pairs = tuple((at(-nu, some), at(nu, some)) for nu in directions)
        return cls(events.layout, nominal, Shifts(at(0.0 * directions[0], some), pairs))


@dataclass(frozen=True)
class BackgroundEvents:
    """Events of the reference split at nu = 0; `shares` are those of the expected yield and sum to one.

    They have the signs of the weights.
    """

    particles: Float32
    embedded: LatentEvents
    shares: Float64


def read_observed(path: Path, layout: EventLayout, selection: Selection) -> ObservedEvents:
    """Read events as they were measured and cut them as the study cuts; nothing is shifted.

    Raise EventContentError if one has a weight other than 1: data have none.
    """
    particles, rows, start = [], [], 0
    with open_events(path, foreign=True) as source:
        if source.layout != layout:
            raise LayoutError(
                f"{path}: its events have {_described(source.layout)}, "
                f"but the background has {_described(layout)}: write them alike"
            )
        for chunk in source.chunks():
            _refuse_weights(path, chunk, start)
            selected, kept = selection.apply(chunk)
            particles.append(selected.particles)
            rows.append(kept + start)
            start += len(chunk)
    if not sum(len(part) for part in rows):
        raise TooFewEventsError(
            f"{path}: none of its {start} events passes the selection of the study: `covad inspect` shows "
            "their values; are the units those of the simulation?"
        )
    return ObservedEvents(layout, np.concatenate(particles), np.concatenate(rows), start)


def _refuse_weights(path: Path, events: Events, start: int) -> None:
    if events.weights is not None and (other := np.flatnonzero(events.weights != 1.0)).size:
        raise EventContentError(
            f"{path}: event {start + other[0]} has the weight {events.weights[other[0]]}, but observed "
            "events count once each: leave the weights out of the file"
        )


def _described(layout: EventLayout) -> str:
    return ", ".join(f"{c.slots} x {c.name} ({' '.join(c.features)})" for c in layout.collections)


def read_background(
    data: CollisionData, rows: NDArray[np.int64], n_events: int = BACKGROUND_EVENTS, verify: bool = True
) -> Events:
    """Read about `n_events` of ascending rows of the background, or all of them.

    The pools hold z only; this gives the objects of events. They come in stretches from all over the rows,
    because files may be sorted by process; with weights one by one, because a process with few events may be
    most of the yield.
    """
    with data.open(BACKGROUND, verify) as files:
        if files.weighted:
            return files.read(rows[:: math.ceil(len(rows) / n_events)])
        return concatenate([files.read(part) for part in evenly_spaced(rows, n_events, STRETCHES)])


def embed_background(run: FinishedRun, sample: BackgroundSample) -> BackgroundEvents:
    """Embed background events at nu = 0."""
    particles, weights = sample.nominal.particles, sample.nominal.weights
    return BackgroundEvents(particles, embed(run, particles), weights / weights.sum())


def evenly_spaced(rows: NDArray[np.int64], n_events: int, stretches: int) -> list[NDArray[np.int64]]:
    """Return `stretches` parts of ascending rows at equal distances, of `n_events` together."""
    parts = np.array_split(rows, min(stretches, len(rows)))
    share = min(1.0, n_events / len(rows))
    return [part[: max(1, round(share * len(part)))] for part in parts]


def embed_observed(run: FinishedRun, path: Path, events: ObservedEvents) -> LatentEvents:
    """Embed the events of a file; one without z is named by the file and its number there."""
    try:
        return embed(run, events.particles)
    except BadEventError as failure:
        raise EventContentError(f"{path}: {failure.numbered(events.rows)}") from failure


def embed(run: FinishedRun, particles: Float32) -> LatentEvents:
    """Return standardised z and the response of events, as the pools have them."""
    z = encode(run.space, particles)
    return LatentEvents(run.scale(z), response_of(run.response, z))


def make_dataset(
    run: FinishedRun,
    data: LatentEvents,
    reference: LatentEvents,
    expected: float,
    auxiliary: Mapping[str, float],
) -> Dataset:
    """Return what is tested; `auxiliary` holds the value of every nuisance in units of its sigma."""
    normalisation = None
    if NORMALISATION in run.nuisances and run.study.normalisation is not None:
        sigma = run.study.normalisation
        normalisation = Normalisation(sigma, auxiliary[NORMALISATION] * sigma)
    shape = [auxiliary[name] for name in run.nuisances if name != NORMALISATION]
    untreated, matrix = run.configuration.treatment is Treatment.NONE, run.data.source.correlation
    return Dataset(
        reference=reference.z,
        data=data.z,
        weights=reference.weights_for(expected),
        reference_response=Response.none(len(reference)) if untreated else reference.response,
        data_response=Response.none(len(data)) if untreated else data.response,
        measured=np.array(shape, dtype=np.float64),
        normalisation=normalisation,
        correlation=None if untreated or matrix is None else np.array(matrix),
    )
