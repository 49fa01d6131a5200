"""Stage `response`: g (and D) of every embedding and fold, fitted on the frozen embedding."""

from __future__ import annotations

import logging

from covad.embedding.embed import EmbeddingCache
from covad.embedding.encoder import Encoder
from covad.embedding.metrics import Learned
from covad.events.processes import BACKGROUND
from covad.messages import counted
from covad.parallel import run_jobs
from covad.pipeline.encoder import fold_label, trained_on
from covad.response.fit import Pairs, fit_response, response_grid
from covad.response.model import ResponseShape
from covad.response.settings import FitSettings
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.study import Study
from covad.study.plan import space_label

log = logging.getLogger(__name__)


def fit_missing(data: CollisionData, workers: int) -> None:
    """Fit every response that is not there whole, those of an encoder in a process of their own."""
    missing = []
    for name, fold in data.products.models:
        wanted = sorted({order for embedding, order in data.study.spaces if embedding == name})
        orders = [order for order in wanted if data.products.response(name, fold, order).make_room()]
        if orders:
            missing.append((data.study, data.directory, name, fold, orders))
    if missing:
        log.info("stage response: %s to fit", counted(sum(len(job[-1]) for job in missing), "response"))
    run_jobs(fit_responses, missing, workers)


def fit_responses(
    study: Study, directory: RunDirectory, embedding: str, fold: int, orders: list[int]
) -> None:
    """Embed the response split once, and fit g (and D) on it."""
    data = CollisionData.of_run(study, directory)
    encoder = Encoder.load(data.products.encoder(embedding, fold).verified())
    pairs = embedded_pairs(data, embedding, fold, "response")
    for order in orders:
        shape = ResponseShape(
            encoder.settings.outputs, len(data.systematics), order, data.source.response.hidden
        )
        seed = derived_seed(study, "response", str(fold))
        found = fit_response(pairs, shape, FitSettings(**dict(data.source.response), seed=seed))
        _tell(f"response of {space_label((embedding, order))}{fold_label(data, fold)}", found.learned)
        product = data.products.response(embedding, fold, order)
        found.model.save(product.path, trained_on(data, data.rows["response"]) | {"losses": found.losses})
        data.note(product)


def _tell(what: str, learned: Learned) -> None:
    """Say what a response knows about nu: the mean of the log likelihood ratio of a shifted event."""
    if learned.nothing:
        log.warning(
            "%s: has learned nothing beyond chance: its log likelihood is %.2g +- %.1g per event above no "
            "response; the nuisances cannot be profiled with it: raise source.response.epochs, or "
            "source.splits.response",
            what,
            learned.gain,
            learned.error,
        )
        return
    log.info("%s: log likelihood %.2g +- %.1g per event above no response", what, learned.gain, learned.error)


def embedded_pairs(data: CollisionData, embedding: str, fold: int, role: str) -> Pairs:
    """Embed the events of a role at nu = 0 and on the grid of the response, aligned by event."""
    cache = EmbeddingCache(
        data.directory.path / "embedded",
        Encoder.load(data.products.encoder(embedding, fold).verified()),
        data.systematics,
        data.selection,
        data.products.embedded_digest(embedding, fold, role),
    )
    centre = tuple(0.0 for _ in data.systematics)
    points = [centre, *response_grid(len(data.systematics))]
    with data.open(BACKGROUND) as files:
        family = cache.family(files.pieces(data.rows[role]), points, data.alternatives(role))
    return Pairs.align(family.pop(centre), family)
