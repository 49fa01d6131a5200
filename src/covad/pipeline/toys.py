"""The stage 'toys': compute the pseudo-experiments that are missing."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from covad.errors import FileFormatError, PlanError
from covad.inference.samples import count_copies, small_reference
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.tuned import read_bases, read_clips
from covad.study import Study
from covad.study.plan import (
    Sources,
    Space,
    WorstPoints,
    background_first,
    draws,
    plan,
    requests,
    sizes_of,
    space,
    worst_draws,
)
from covad.toys.drawing import PoolSource
from covad.toys.ensembles import Shard
from covad.toys.run import Backend, ToysComputed, run_toys

log = logging.getLogger(__name__)


def check_draws(study: Study, sources: Sources, worst: WorstPoints | None = None) -> None:
    """Raise if toys need more events, or another nu or signal, than the pools have: before they are tuned."""
    for configuration in study.configurations:
        along_worst = (draw for _, draw in worst_draws(study, configuration, worst or {}))
        for draw in (*draws(study, configuration), *along_worst):
            sources[space(configuration)].check(draw)


def warn_of_references(study: Study, shares: Mapping[Space, float]) -> None:
    """Warn of configurations whose reference is small beside the data, and say what that costs.

    `shares` has what one reference event is worth in each space; configurations of other spaces are left out.
    """
    for configuration in study.configurations:
        sizes, share = sizes_of(study, configuration), shares.get(space(configuration))
        if share is not None and (cost := small_reference(share * sizes.reference, sizes.expected)):
            key = "sizes.reference" if configuration.sizes is None else "configurations.sizes.reference"
            log.warning("%s, for '%s': %s", key, configuration.label, cost)


def refuse_copies(source: PoolSource) -> None:
    """Raise FileFormatError if the reference of given pools holds copies, which make it fluctuate more."""
    z = source.reference_events()
    if copies := count_copies(z.astype(np.float64)):
        raise FileFormatError(
            f"{source.directory}: {copies} of {len(z)} events of the pool 'reference' are copies of another "
            "one, which makes every p too small: write it without them"
        )


def compute_missing(
    study: Study, sources: Sources, directory: RunDirectory, backend: Backend, shard: Shard | None
) -> ToysComputed:
    """Compute what is missing of this shard, background first: closure is known before sensitivity."""
    for configuration in study.configurations:
        if space(configuration) not in sources:
            raise PlanError(
                f"{directory.path}: the pools of '{configuration.label}' are not there: run again"
            )
    products = Products(study, directory)
    clips, bases = read_clips(products, sources), read_bases(products, sources)
    entries = plan(study, sources, clips, bases, products.worst)
    wanted = requests(background_first(entries))
    log.info("stage toys: %d toys are asked for", sum(request.toys for request in wanted))
    return run_toys(wanted, directory.toys, backend, shard)
