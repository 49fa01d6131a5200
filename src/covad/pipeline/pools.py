"""Stage `pools`: everything that toys draw from, embedded, standardised and with its response."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from covad.embedding.embed import Embedded, embed_family
from covad.errors import NegativeExpectationError
from covad.events.files import FileSet
from covad.events.processes import BACKGROUND
from covad.events.systematics import Alternative
from covad.events.weights import accepted
from covad.messages import counted
from covad.parallel import run_jobs
from covad.pipeline.weights import PoolMaker
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import SCALE, SMOOTHING, RunDirectory
from covad.runs.models import load_response, load_space
from covad.runs.scale import Standardisation
from covad.runs.smoothing import SmoothedPools, read_smoothing, smoothing_line
from covad.settings import Nu
from covad.storage.atomic import write_json
from covad.storage.records import write_record
from covad.study import Study
from covad.study.plan import n_prior_points, null_draw, prior_events, signal_points, space_label
from covad.toys.drawing import largest_number
from covad.toys.ensembles import Treatment, prior_points
from covad.toys.pool_files import write_pools
from covad.toys.pools import Pool, Pools

log = logging.getLogger(__name__)

#: Parts of the data split, each of which is embedded at some points of the prior.
_PRIOR_PARTS = 16
#: Embeds rows of files at some points, with the separate samples that belong to them.
EmbedRows = Callable[[FileSet, NDArray[np.int64], Sequence[Nu], Sequence[Alternative]], dict[Nu, Embedded]]


def embed_missing(data: CollisionData, workers: int) -> None:
    """Embed the pools of every space that has none whole, with space and response of the study's fold."""
    missing: dict[str, list[int]] = {}
    for space in data.study.spaces:
        if data.products.pools(space).make_room():
            missing.setdefault(space[0], []).append(space[1])
    jobs = [(data.study, data.directory, name, orders) for name, orders in missing.items()]
    if jobs:
        spaces = counted(sum(len(orders) for orders in missing.values()), "space")
        log.info("stage pools: events of %s to embed", spaces)
    run_jobs(embed_pools, jobs, workers)
    for name, orders in missing.items():
        for order in orders:
            if smoothed := read_smoothing(data.products.pools((name, order))):
                log.info("stage pools: %s: %s", space_label((name, order)), smoothing_line(smoothed))


def embed_pools(study: Study, directory: RunDirectory, name: str, orders: list[int]) -> None:
    """Embed all pools of one space, and write them with the response of each order."""
    data = CollisionData.of_run(study, directory)
    space = load_space(data, name)
    centre = tuple(0.0 for _ in data.systematics)

    def embed(
        files: FileSet,
        rows: NDArray[np.int64],
        points: Sequence[Nu],
        alternatives: Sequence[Alternative] = (),
    ) -> dict[Nu, Embedded]:
        pieces = files.pieces(rows)
        return embed_family(space, pieces, data.systematics, points, data.selection, alternatives)

    with data.open(BACKGROUND) as files:
        reference = embed(files, data.rows["reference"], [centre])[centre]
        basis = embed(files, data.rows["basis"], [centre])[centre]
        drawn_at = {order: data.products.data_points((name, order)) or () for order in orders}
        all_points = list(dict.fromkeys(nu for each in drawn_at.values() for nu in each))
        background = embed(files, data.rows["data"], all_points, data.alternatives("data"))
        scale = Standardisation.of(accepted_by_size(reference, derived_seed(study, "unweight")))
        spaces = []
        for order in orders:
            model = load_response(data, (name, order))
            maker = PoolMaker(study, scale, model, (name, order), basis, reference)
            pools = Pools(
                maker.reference,
                maker.basis,
                {nu: maker.equal("data", background[nu], nu) for nu in drawn_at[order]},
            )
            spaces.append((maker, pools))
    signals = {}
    for signal in study.signals:
        with data.open(signal) as files:
            pieces = files.pieces(np.arange(len(files)))
            points = signal_points(study)
            signals[signal] = embed_family(space, pieces, data.acting, points, data.selection)
    spaces = [
        (
            maker,
            replace(
                pools,
                signals={
                    name: {nu: maker.equal(name, embedded, nu) for nu, embedded in family.items()}
                    for name, family in signals.items()
                },
            ),
        )
        for maker, pools in spaces
    ]
    worth = min(n_worth({nu: pools.data[nu] for nu in study.points}, centre) for _, pools in spaces)
    prior = prior_pools(data, [maker for maker, _ in spaces], embed, worth)
    for (maker, pools), thrown in zip(spaces, prior, strict=True):
        complete = replace(pools, prior=thrown)
        product = data.products.pools(maker.where)
        write_json(product.path / SCALE, scale.plain())
        written = [product.path / SCALE, *write_pools(product.path, complete)]
        if maker.smoothed:
            write_record(product.path / SMOOTHING, SmoothedPools(tuple(maker.smoothed)))
            written.append(product.path / SMOOTHING)
        data.note(product, written)
        maker.warn(space_label(maker.where))


def n_worth(data: Mapping[Nu, Pool], centre: Nu) -> float:
    """Return how many events of equal weight the data split is worth: all that are selected at nu = 0.

    If events have weights it is fewer: what is accepted where this is least, less the noise of the signs.
    """
    if data[centre].cost is None:
        return len(data[centre])
    return min(pool.worth for pool in data.values())


def n_parts(study: Study, n_events: float) -> int:
    """Return into how many parts the data split is divided, of so many events that it is worth.

    Each point of the prior gets one part, a sixteenth where that is enough for a toy.
    """
    wanted = prior_events(study)
    return int(np.clip(n_events / wanted, 1, _PRIOR_PARTS)) if wanted else 1


def served_share(study: Study, pools: Iterable[Pool]) -> float:
    """Return the events of the worst of some pools of the prior, relative to what a toy may need of it."""
    profiled = [c for c in study.configurations if c.treatment is Treatment.PROFILED]
    largest = max(replace(null_draw(study, c), prior=True).largest.expected_background for c in profiled)
    return min(len(pool) / largest_number(largest * pool.yield_ratio) for pool in pools)


def prior_pools(
    data: CollisionData, makers: Sequence[PoolMaker], embed: EmbedRows, n_events: float
) -> list[dict[Nu, Pool]]:
    """Return the pools of the prior for each maker; the data split is worth `n_events` at the study's nu.

    Weights at a point of the prior can leave far fewer. The parts are then made larger.
    """
    study, parts = data.study, n_parts(data.study, n_events)
    while True:
        embedded: dict[Nu, Embedded] = {}
        with data.open(BACKGROUND) as files:
            for number, (rows, points) in enumerate(divided := list(prior_parts(data, parts))):
                embedded |= embed(files, rows, points, data.alternatives("data", number, len(divided)))
        kept = [len(maker.smoothed) for maker in makers]
        try:
            found = [{nu: maker.equal("prior", at, nu) for nu, at in embedded.items()} for maker in makers]
            share = min((served_share(study, pools.values()) for pools in found if pools), default=1.0)
        except NegativeExpectationError:
            if len(divided) == 1:
                raise
            share = 0.5
        if share >= 1.0 or len(divided) <= 1:
            return found
        for maker, n_smoothed in zip(makers, kept, strict=True):
            del maker.smoothed[n_smoothed:]
        parts = max(int(share * len(divided)), 1)


def prior_parts(data: CollisionData, parts: int) -> Iterator[tuple[NDArray[np.int64], list[Nu]]]:
    """Yield rows of the data split with the points of the prior at which they are embedded.

    All points together would take as long as 64 pools: each gets one of some random parts of the rows. Toys
    at one point share that part, those at different points of one part its events.
    """
    study = data.study
    points = prior_points(
        n_prior_points(study),
        len(data.systematics),
        derived_seed(study, "prior"),
        data.source.correlation,
        [k for k, nuisance in enumerate(data.systematics) if nuisance.discrete],
    )
    if not points:
        return
    parts = min(parts, len(points))
    # files may be sorted, by process for instance
    shuffled = np.random.default_rng(derived_seed(study, "prior rows")).permutation(data.rows["data"])
    for number, rows in enumerate(np.array_split(shuffled, parts)):
        yield np.sort(rows), list(points[number::parts])


def accepted_by_size(embedded: Embedded, seed: int) -> NDArray[np.float32]:
    """Return z of all events, or of events accepted in proportion to the size of their weights."""
    sizes = np.abs(embedded.weights)
    if not len(sizes) or (sizes == sizes[0]).all():
        return embedded.z
    return np.asarray(embedded.z[accepted(sizes, seed)])
