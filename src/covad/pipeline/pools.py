"""Stage `pools`: everything that toys draw from, embedded, standardised and with its response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import Embedded, NuVector, embed_family
from covad.embedding.encoder import Encoder
from covad.events.files import FileSet
from covad.events.processes import BACKGROUND
from covad.parallel import run_jobs
from covad.response.model import ResponseModel
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import SCALE, RunDirectory
from covad.runs.models import Standardisation, response_of
from covad.storage.atomic import write_json
from covad.study import Study
from covad.toys.pools import MANIFEST, LatentEvents, Pool, Pools, write_pools

Rows = NDArray[np.int64]


def embed_missing(data: CollisionData, workers: int) -> None:
    """Stage `pools`; encoder and response are those of the study's fold."""
    missing: dict[str, list[int]] = {}
    for space in data.study.spaces:
        if not (data.directory.pools(space) / MANIFEST).exists():
            missing.setdefault(space[0], []).append(space[1])
    jobs = [(data.study, data.directory, name, orders) for name, orders in missing.items()]
    run_jobs(embed_pools, jobs, workers)


def embed_pools(study: Study, directory: RunDirectory, embedding: str, orders: list[int]) -> None:
    """Embed all pools of one embedding, and write them with the response of each order."""
    data = CollisionData.of(study, directory)
    fold = data.source.fold
    encoder = Encoder.load(directory.encoder(embedding, fold))
    spread = _SpreadOut(data, encoder)
    with data.open(BACKGROUND) as files:
        reference = spread.embed(files, data.rows["reference"], [spread.centre])[spread.centre]
        basis = spread.embed(files, data.rows["basis"], [spread.centre])[spread.centre]
        background = spread.embed(files, data.rows["data"], study.points)
    signals = {}
    for name in study.signals:
        with data.open(name) as files:
            signals[name] = spread.embed(files, np.arange(len(files)), study.points)
    scale = Standardisation.of(reference.z)
    for order in orders:
        finish = _Finish(ResponseModel.load(directory.response(embedding, fold, order)), scale, data)
        pools = Pools(
            finish.pool(reference),
            scale(basis.z),
            {nu: finish.pool(embedded) for nu, embedded in background.items()},
            {
                name: {nu: finish.pool(embedded) for nu, embedded in family.items()}
                for name, family in signals.items()
            },
        )
        folder_of_pools = directory.pools((embedding, order))
        write_json(folder_of_pools / SCALE, scale.plain())
        write_pools(folder_of_pools, pools)


@dataclass(frozen=True)
class _SpreadOut:
    """Embeds samples at several nu."""

    data: CollisionData
    encoder: Encoder

    @property
    def centre(self) -> NuVector:
        return tuple(0.0 for _ in self.data.systematics)

    def embed(self, files: FileSet, rows: Rows, points: list[NuVector] | tuple[NuVector, ...]) -> Any:
        return embed_family(
            self.encoder, files.pieces(rows), self.data.systematics, points, self.data.selection
        )


@dataclass(frozen=True)
class _Finish:
    """Adds the response and standardises."""

    model: ResponseModel
    scale: Standardisation
    data: CollisionData

    def pool(self, embedded: Embedded) -> Pool:
        z = unweighted(embedded, derived_seed(self.data.study, "unweight"))
        return Pool(LatentEvents(self.scale(z), response_of(self.model, z)), embedded.yield_ratio)


def unweighted(embedded: Embedded, seed: int) -> NDArray[np.float32]:
    """Events of equal weight: those of a weight variation are accepted in proportion to their weights."""
    weights = embedded.weights
    if not len(weights) or (weights == weights[0]).all():
        return embedded.z
    accepted = np.random.default_rng(seed).random(len(weights)) * weights.max() < weights
    return np.asarray(embedded.z[accepted])
