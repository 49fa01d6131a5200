"""Stage `pools`: everything that toys draw from, embedded, standardised and with its response."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import Embedded, embed_family
from covad.embedding.encoder import Encoder
from covad.events.files import FileSet
from covad.events.processes import BACKGROUND
from covad.messages import counted
from covad.parallel import run_jobs
from covad.response.model import ResponseModel
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import SCALE, RunDirectory
from covad.runs.models import response_of
from covad.runs.scale import Standardisation
from covad.settings import Nu
from covad.storage.atomic import write_json
from covad.study import Study
from covad.toys.pools import LatentEvents, Pool, Pools, write_pools

log = logging.getLogger(__name__)


def embed_missing(data: CollisionData, workers: int) -> None:
    """Embed the pools of every space that has none whole, with encoder and response of the study's fold."""
    missing: dict[str, list[int]] = {}
    for space in data.study.spaces:
        if data.products.pools(space).make_room():
            missing.setdefault(space[0], []).append(space[1])
    jobs = [(data.study, data.directory, name, orders) for name, orders in missing.items()]
    if jobs:
        spaces = counted(sum(len(orders) for orders in missing.values()), "space")
        log.info("stage pools: events of %s to embed", spaces)
    run_jobs(embed_pools, jobs, workers)


def embed_pools(study: Study, directory: RunDirectory, embedding: str, orders: list[int]) -> None:
    """Embed all pools of one embedding, and write them with the response of each order."""
    data = CollisionData.of_run(study, directory)
    fold = data.source.fold
    encoder = Encoder.load(data.products.encoder(embedding, fold).verified())
    centre = tuple(0.0 for _ in data.systematics)

    def embed(files: FileSet, rows: NDArray[np.int64], points: Sequence[Nu]) -> dict[Nu, Embedded]:
        return embed_family(encoder, files.pieces(rows), data.systematics, points, data.selection)

    with data.open(BACKGROUND) as files:
        reference = embed(files, data.rows["reference"], [centre])[centre]
        basis = embed(files, data.rows["basis"], [centre])[centre]
        background = embed(files, data.rows["data"], study.points)
    signals = {}
    for name in study.signals:
        with data.open(name) as files:
            signals[name] = embed(files, np.arange(len(files)), study.points)
    scale = Standardisation.of(reference.z)
    for order in orders:
        model = ResponseModel.load(data.products.response(embedding, fold, order).verified())

        def pool(embedded: Embedded, model: ResponseModel = model) -> Pool:
            z = unweighted(embedded, derived_seed(study, "unweight"))
            return Pool(LatentEvents(scale(z), response_of(model, z)), embedded.yield_ratio)

        pools = Pools(
            pool(reference),
            scale(basis.z),
            {nu: pool(embedded) for nu, embedded in background.items()},
            {
                name: {nu: pool(embedded) for nu, embedded in family.items()}
                for name, family in signals.items()
            },
        )
        product = data.products.pools((embedding, order))
        write_json(product.path / SCALE, scale.plain())
        written = write_pools(product.path, pools)
        data.note(product, [product.path / SCALE, *written])


def unweighted(embedded: Embedded, seed: int) -> NDArray[np.float32]:
    """Return events of equal weight: those of a weight variation are accepted in proportion to it."""
    weights = embedded.weights
    if not len(weights) or (weights == weights[0]).all():
        return embedded.z
    accepted = np.random.default_rng(seed).random(len(weights)) * weights.max() < weights
    return np.asarray(embedded.z[accepted])
