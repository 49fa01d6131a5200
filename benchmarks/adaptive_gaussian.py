"""Null toys of a Gaussian against the law of the adaptive test, of all toys and of each.

    python benchmarks/adaptive_gaussian.py --expected 5000 --reference 26000 --toys 200
    python benchmarks/adaptive_gaussian.py --expected 1200 --reference 6000 --dimensions 1 --toys 500

A Gaussian has tails without reference events: what a weak ridge makes of data there, the law has to know. The
law of all toys comes from a reference four times as large; that of each toy, as an observed file has it, from
sums over its own reference.
"""

from __future__ import annotations

import click
import numpy as np
from adaptive_null import agreement

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import AdaptiveFit, choose_members
from covad.nplm.dataset import Dataset, Response
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.nplm.statistic import likelihood_ratio

SEED = 100


def gaussian(expected: float, n_reference: int, dimensions: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    reference, data = (
        rng.normal(size=(n, dimensions)).astype(np.float32) for n in (n_reference, rng.poisson(expected))
    )
    return Dataset(
        reference=reference,
        data=data,
        weights=np.full(n_reference, expected / n_reference),
        reference_response=Response.none(n_reference),
        data_response=Response.none(len(data)),
        measured=np.empty(0),
    )


@click.command(help=__doc__.splitlines()[0])
@click.option("--expected", default=5000.0, show_default=True)
@click.option("--reference", default=26_000, show_default=True)
@click.option("--dimensions", default=2, show_default=True)
@click.option("--toys", default=200, show_default=True)
def main(expected: float, reference: int, dimensions: int, toys: int) -> None:
    pool = np.random.default_rng(1).normal(size=(5000, dimensions)).astype(np.float32)
    sizes = Sizes(expected=expected, reference=reference)
    test = AdaptiveTest(choose_members(pool, AdaptiveSettings(), sizes))
    null = test.nulls(gaussian(expected, 4 * reference, dimensions, 2), n_reference=reference).at_yield()
    t, own = [], []
    for index in range(toys):
        dataset = gaussian(expected, reference, dimensions, SEED + index)
        tau = likelihood_ratio(dataset, test, 0).tau
        if not isinstance(tau, AdaptiveFit):
            raise TypeError("the adaptive test returns a fit of its own")
        t.append(tau.member_t)
        own.append(test.nulls(dataset).at_yield().log_p(tau.member_t))
    shared = np.array([null.log_p(each) for each in t])
    for name, log_p in (("law of all toys", shared), ("law of each toy", np.array(own))):
        print(f"{name}: smallest p: {agreement(null.law.sf(-2.0 * log_p.min(axis=1)))}")
        for j, member in enumerate(test.members.names):
            print(f"  {member}: {agreement(np.exp(log_p[:, j]))}")


if __name__ == "__main__":
    main()
