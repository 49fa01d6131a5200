"""Stage `response`: g (and D) of every space and fold."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import Embedded, EmbeddingCache
from covad.embedding.metrics import Learned
from covad.events.processes import BACKGROUND
from covad.events.systematics import Alternative, Systematic
from covad.messages import counted
from covad.parallel import run_jobs
from covad.pipeline.encoder import fold_label, trained_on
from covad.response.fit import fit_response, one_sided
from covad.response.grid import ALL_PAIRS, SIZES, Pair, response_grid
from covad.response.model import ResponseShape
from covad.response.pairs import Pairs
from covad.response.settings import FitSettings
from covad.runs.collisions import ALTERNATIVE_ROLES, CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.runs.models import load_space
from covad.settings import Nu
from covad.storage.digests import content_digest
from covad.study import Study
from covad.study.plan import space_label

log = logging.getLogger(__name__)


def fit_missing(data: CollisionData, workers: int) -> None:
    """Fit every response that is not there whole, those of a space in a process of their own."""
    missing = []
    for name, fold in data.products.models:
        wanted = sorted({order for space, order in data.study.spaces if space == name})
        orders = [order for order in wanted if data.products.response(name, fold, order).make_room()]
        if orders:
            missing.append((data.study, data.directory, name, fold, orders))
    if missing:
        log.info("stage response: %s to fit", counted(sum(len(job[-1]) for job in missing), "response"))
    run_jobs(fit_responses, missing, workers)


def fit_responses(study: Study, directory: RunDirectory, space: str, fold: int, orders: list[int]) -> None:
    """Embed the response split once, and fit g (and D) on it."""
    data = CollisionData.of_run(study, directory)
    mapped = load_space(data, space, fold)
    pairs = embedded_pairs(data, space, fold, "response")
    k = len(data.systematics)
    mirrored = one_sided(list(pairs.z), k)
    for number, side in mirrored.items():
        log.warning(
            "systematic '%s' exists at nu = %+g only: its response on the other side is taken for the mirror "
            "image, which nothing here can test",
            data.systematics[number].name,
            side,
        )
    for order in orders:
        shape = ResponseShape(
            mapped.outputs,
            k,
            order,
            data.source.response.hidden,
            mixed_terms(data),
            tuple(mirrored) if order > 1 else (),
        )
        seed = derived_seed(study, "response", str(fold))
        found = fit_response(pairs, shape, FitSettings(**dict(data.source.response.fit), seed=seed))
        _tell(f"response of {space_label((space, order))}{fold_label(data, fold)}", found.learned)
        product = data.products.response(space, fold, order)
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


def mixed_terms(data: CollisionData) -> tuple[Pair, ...] | None:
    """Return the pairs of nuisances that have a mixed term in D, by number; None are all of them.

    Unless the study says which, these are all of few nuisances, if each exists at +1 and -1, where mixed
    terms are learned.
    """
    names, asked = [systematic.name for systematic in data.systematics], data.source.response.cross
    if asked is None:
        both = all({1.0, -1.0} <= set(_sizes(systematic)) for systematic in data.systematics)
        return None if both and len(names) <= ALL_PAIRS else ()
    return tuple((a, b) for a, b in sorted({tuple(sorted(map(names.index, pair))) for pair in asked}))


def _sizes(systematic: Systematic) -> tuple[float, ...]:
    """Return the values of nu at which a systematic tells its response: separate samples are few."""
    if not getattr(systematic, "discrete", False):
        return SIZES
    effects = [effect for effect, _ in getattr(systematic, "acting", ())]
    return (1.0,) if any(getattr(effect, "one_sided", False) for effect in effects) else (1.0, -1.0)


def grid_of(data: CollisionData) -> list[Nu]:
    """Return the points at which the response of the study is fitted and judged."""
    sizes = [_sizes(systematic) for systematic in data.systematics]
    return response_grid(len(sizes), mixed_terms(data), sizes)


def embedded_pairs(data: CollisionData, space: str, fold: int, role: str) -> Pairs:
    """Embed the events of a role at nu = 0 and on the grid of the response, aligned by event."""
    digest = data.products.embedded_digest(space, fold, role)
    alternatives = data.alternatives(role) if role in ALTERNATIVE_ROLES else ()  # others serve at nu = 0
    return _embedded(data, space, fold, data.rows[role], digest, grid_of(data), alternatives)


def embedded_nominal(data: CollisionData, space: str, fold: int, role: str) -> Embedded:
    """Embed the events of a role at nu = 0 alone."""
    digest = data.products.embedded_digest(space, fold, role)
    centre = tuple(0.0 for _ in data.systematics)
    return _family(data, space, fold, data.rows[role], digest, [centre])[centre]


def corner_pairs(data: CollisionData, space: str, fold: int, planes: Sequence[Pair], n_events: int) -> Pairs:
    """Embed some events of the check split at the corners (+-1, +-1) of planes of two nuisances.

    Neither has separate samples, which would have to be as many as the chosen events.
    """
    axes, rows = np.eye(len(data.systematics)), data.rows["check"]
    chosen = np.sort(np.random.default_rng(derived_seed(data.study, "corners")).permutation(rows)[:n_events])
    points = [
        tuple((s * axes[a] + r * axes[b]).tolist())
        for a, b in planes
        for s in (1.0, -1.0)
        for r in (1.0, -1.0)
    ]
    digest = content_digest([data.products.embedded_digest(space, fold, "check"), "corners", n_events])
    pairs = _embedded(data, space, fold, chosen, digest, points)
    order = np.random.default_rng(derived_seed(data.study, "check")).permutation(len(pairs))
    return pairs.take(order)


def _embedded(
    data: CollisionData,
    space: str,
    fold: int,
    rows: NDArray[np.int64],
    digest: str,
    points: Sequence[Nu],
    alternatives: Sequence[Alternative] = (),
) -> Pairs:
    centre = tuple(0.0 for _ in data.systematics)
    family = _family(data, space, fold, rows, digest, [centre, *points], alternatives)
    return Pairs.align(family.pop(centre), family)


def _family(
    data: CollisionData,
    space: str,
    fold: int,
    rows: NDArray[np.int64],
    digest: str,
    points: Sequence[Nu],
    alternatives: Sequence[Alternative] = (),
) -> dict[Nu, Embedded]:
    cache = EmbeddingCache(
        data.directory.path / "embedded",
        load_space(data, space, fold),
        data.systematics,
        data.selection,
        digest,
    )
    with data.open(BACKGROUND) as files:
        return cache.family(files.pieces(rows), points, alternatives)
