"""The stage 'toys': compute the pseudo-experiments that are missing."""

from __future__ import annotations

from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.tuned import read_bases, read_clips
from covad.study import Study
from covad.study.plan import Sources, background_first, plan, requests
from covad.toys.ensembles import Shard
from covad.toys.run import Backend, ToysComputed, run_toys


def compute_missing(
    study: Study, sources: Sources, directory: RunDirectory, backend: Backend, shard: Shard | None
) -> ToysComputed:
    """Compute what is missing of this shard, background first: closure is known before sensitivity."""
    products = Products(study, directory)
    entries = plan(study, sources, read_clips(products, sources), read_bases(products, sources))
    return run_toys(requests(background_first(entries)), directory.toys, backend, shard)
