"""From an observed event file to the dataset that is tested: selection, encoder, response, reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import encode
from covad.embedding.encoder import Encoder
from covad.errors import LayoutError, TooFewEventsError
from covad.events.files import open_events
from covad.events.layout import EventLayout
from covad.events.selection import Selection
from covad.nplm.dataset import Dataset, Float32, Normalisation, Response
from covad.observed.run import FinishedRun
from covad.runs.models import response_of
from covad.study.sources import NORMALISATION
from covad.toys.ensembles import Treatment
from covad.toys.pools import LatentEvents


@dataclass(frozen=True)
class ObservedEvents:
    """The selected events of a file, and the number of each in it."""

    layout: EventLayout
    particles: Float32
    rows: NDArray[np.int64]
    n_file: int

    def __len__(self) -> int:
        return len(self.rows)


def read_observed(path: Path, encoder: Encoder, selection: Selection) -> ObservedEvents:
    """Events as they were measured, cut as the study cuts; nothing is shifted."""
    particles, rows, start = [], [], 0
    with open_events(path) as source:
        if source.layout != encoder.layout:
            raise LayoutError(
                f"{path}: its events have {_described(source.layout)}, "
                f"but the encoder of the run was trained on {_described(encoder.layout)}"
            )
        for chunk in source.chunks():
            selected, kept = selection.apply(chunk)
            particles.append(selected.particles)
            rows.append(kept + start)
            start += len(chunk)
    if not sum(len(part) for part in rows):
        raise TooFewEventsError(f"{path}: none of its {start} events passes the selection of the study")
    return ObservedEvents(encoder.layout, np.concatenate(particles), np.concatenate(rows), start)


def _described(layout: EventLayout) -> str:
    return ", ".join(f"{c.slots} x {c.name} ({' '.join(c.features)})" for c in layout.collections)


def embedded(run: FinishedRun, particles: Float32) -> LatentEvents:
    """Standardised z and the response, as in the pools."""
    encoder, response = run.models
    z = encode(encoder, particles)
    return LatentEvents(run.scale(z), response_of(response, z))


def make_dataset(
    run: FinishedRun,
    data: LatentEvents,
    reference: LatentEvents,
    expected: float,
    auxiliary: Mapping[str, float],
) -> Dataset:
    """`auxiliary` holds the measured value of every nuisance in units of its sigma."""
    normalisation = None
    if NORMALISATION in run.nuisances and run.study.normalisation is not None:
        sigma = run.study.normalisation
        normalisation = Normalisation(sigma, auxiliary[NORMALISATION] * sigma)
    shape = [auxiliary[name] for name in run.nuisances if name != NORMALISATION]
    return Dataset(
        reference=reference.z,
        data=data.z,
        weights=np.full(len(reference), expected / len(reference)),
        reference_response=_known(run, reference),
        data_response=_known(run, data),
        measured=np.array(shape, dtype=np.float64),
        normalisation=normalisation,
    )


def _known(run: FinishedRun, sample: LatentEvents) -> Response:
    """Nothing, where the test knows of no nuisances."""
    untreated = run.configuration.treatment is Treatment.NONE
    return Response.none(len(sample)) if untreated else sample.response
