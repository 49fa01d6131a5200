"""Where the toys of a run come from: the latent world, pools that were given, or pools that it embedded."""

from __future__ import annotations

from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.study import Collisions, LatentSection, PoolSection, Study
from covad.study.plan import Sources
from covad.toys.drawing import LatentSource, PoolSource
from covad.toys.pool_files import MANIFEST


def given_source(study: Study, verify: bool = True) -> LatentSource | PoolSource:
    """Open the source of a study that does not start from collisions."""
    if isinstance(study.source, PoolSection):
        return PoolSource.open(study.source.path, verify)
    if isinstance(study.source, LatentSection):
        return LatentSource(study.source.nuisances)
    raise TypeError("the pools of this study are made by its stages")


def open_sources(study: Study, directory: RunDirectory, verify: bool = True) -> Sources:
    """Open what toys of each space come from; spaces whose pools are not there yet are left out.

    `verify` reads the pools once and compares their digests; else only the manifest is verified.
    """
    if not isinstance(study.source, Collisions):
        return dict.fromkeys(study.spaces, given_source(study, verify))
    pools = {space: Products(study, directory).pools(space) for space in study.spaces}
    ready = {space: product for space, product in pools.items() if product.made}
    for product in ready.values():
        product.verified(*([] if verify else [f"{product.name}/{MANIFEST}"]))
    return {space: PoolSource.open(product.path, verify=False) for space, product in ready.items()}
