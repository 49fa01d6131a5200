"""What a quadratic response costs the fits of the adaptive test, beside a linear one, in one run.

    python benchmarks/quadratic_cost.py

Toys of the latent world with one nuisance at nu = 1, 10 000 data and 52 000 reference events; D is g^2 times
a factor. CPU seconds of Delta and of all members, p of the members apart; the median of some toys.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from covad.nplm.adaptive.members import Members, choose_members
from covad.nplm.dataset import Dataset, Response
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

TOYS, BASIS_EVENTS = 5, 50_000
FACTORS = (None, -3.0, 1.0, 10.0)


def bent(dataset: Dataset, factor: float) -> Dataset:
    """Return a dataset with a quadratic response."""
    found = []
    for response in (dataset.reference_response, dataset.data_response):
        bend = factor * response.linear[:, :, None] * response.linear[:, None, :]
        found.append(Response(response.linear, bend.astype(np.float32)))
    return replace(dataset, reference_response=found[0], data_response=found[1])


def seconds(members: Members, dataset: Dataset) -> float:
    """Return the CPU seconds of all fits of one toy."""
    if members.family is None:
        raise TypeError("these members have a constant")
    clock = time.process_time()
    members.family.problem(dataset).maxima(fit_nuisances(dataset))
    return time.process_time() - clock


def main() -> None:
    """Print a line per response."""
    sizes = Sizes()
    basis = latent.background(BASIS_EVENTS, np.random.default_rng(1))
    members = choose_members(basis, AdaptiveSettings(), sizes)
    world = LatentWorld(n_reference=sizes.reference, expected=sizes.expected, n_nuisances=1)
    toys = [world.toy(np.random.default_rng(seed), 1.0) for seed in range(TOYS)]
    linear = 0.0
    for factor in FACTORS:
        found = float(np.median([seconds(members, t if factor is None else bent(t, factor)) for t in toys]))
        linear = linear or found
        told = "linear" if factor is None else f"D = {factor:g} g^2"
        print(f"{told}: {found:.2f} s, {found / linear:.1f} times the linear one")


if __name__ == "__main__":
    sys.exit(main())
