"""Stage `response`: g (and D) of every embedding and fold, fitted on the frozen embedding."""

from __future__ import annotations

import logging

from covad.embedding.embed import EmbeddingCache
from covad.embedding.encoder import Encoder
from covad.events.processes import BACKGROUND
from covad.parallel import run_jobs
from covad.pipeline.encoder import model_names, trained_on
from covad.response.fit import Pairs, fit_response, response_grid
from covad.response.model import ResponseShape
from covad.response.settings import FitSettings
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.study import Study

log = logging.getLogger(__name__)


def fit_missing(data: CollisionData, workers: int) -> None:
    """Fit every response that is not there whole, those of an encoder in a process of their own."""
    missing = []
    for name, fold in model_names(data):
        wanted = sorted({order for embedding, order in data.study.spaces if embedding == name})
        orders = [order for order in wanted if not data.products.response(name, fold, order).whole()]
        if orders:
            missing.append((data.study, data.directory, name, fold, orders))
    run_jobs(fit_responses, missing, workers)


def fit_responses(
    study: Study, directory: RunDirectory, embedding: str, fold: int, orders: list[int]
) -> None:
    """Embed the response split once, and fit g (and D) on it."""
    data = CollisionData.of(study, directory)
    encoder = Encoder.load(data.products.encoder(embedding, fold).verified())
    pairs = embedded_pairs(data, embedding, fold, "response")
    for order in orders:
        shape = ResponseShape(
            encoder.settings.outputs, len(data.systematics), order, data.source.response.hidden
        )
        seed = derived_seed(study, "response", str(fold))
        model, losses = fit_response(pairs, shape, FitSettings(**dict(data.source.response), seed=seed))
        log.info("response of %s, fold %d, order %d: loss %s", embedding, fold, order, losses)
        product = data.products.response(embedding, fold, order)
        model.save(product.path, trained_on(data, data.rows["response"]) | {"losses": losses})
        product.note()


def embedded_pairs(data: CollisionData, embedding: str, fold: int, role: str) -> Pairs:
    """Embed the events of a role at nu = 0 and on the grid of the response, aligned by event."""
    cache = EmbeddingCache(
        data.directory.path / "embedded",
        Encoder.load(data.products.encoder(embedding, fold).verified()),
        data.systematics,
        data.selection,
        data.products.embedded(embedding, fold, role),
    )
    centre = tuple(0.0 for _ in data.systematics)
    points = [centre, *response_grid(len(data.systematics))]
    with data.open(BACKGROUND) as files:
        family = cache.family(files.pieces(data.rows[role]), points)
    return Pairs.align(family.pop(centre), family)
