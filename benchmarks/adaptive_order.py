"""How far the law of the adaptive test holds: what the next order adds to the mean of t of every member.

    python benchmarks/adaptive_order.py
    python benchmarks/adaptive_order.py --expected 1000 --spread 3 --spread 10 --spread 30 --spread 100

Shifts are in standard deviations of t: how much Z of a member would be too large without them. The law has
them (`covad.nplm.adaptive.next_order`); where they are no longer small, the order after them is none either.
"""

from __future__ import annotations

from dataclasses import replace

import click
import numpy as np
from adaptive_null import SEED, Study

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import choose_members
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys import latent_world as latent


@click.command(help=__doc__.splitlines()[0])
@click.option("--expected", default=10_000.0, show_default=True)
@click.option("--spread", "spreads", multiple=True, type=float, help="Of all widths in one ridge; several.")
def main(expected: float, spreads: tuple[float, ...]) -> None:
    study = Study(1, expected, "0")
    settings = AdaptiveSettings(together=spreads) if spreads else AdaptiveSettings()
    sizes = Sizes(expected=expected, reference=study.world.n_reference)
    members = choose_members(latent.background(20_000, np.random.default_rng(SEED)), settings, sizes)
    world = replace(study.world, n_reference=4 * study.world.n_reference)
    sample = world.toy(np.random.default_rng(SEED + 1))
    null = AdaptiveTest(members).nulls(sample, n_reference=study.world.n_reference).at_yield()
    for j, name in enumerate(members.names):
        own, n_basis = null._columns[j], len(members.columns[j])
        square = np.ix_(own, own)
        moments = ScoreMoments(null.moments.information[square], null.moments.reference_variance[square])
        ridge = np.append(members.tests[j].ridge_by_column, np.zeros(len(own) - n_basis))
        leading = ConvexNull.of(moments, ridge, np.pad(null.auxiliary, (n_basis, 0)), n_basis).law
        shift = (null.nulls[j].law.mean - leading.mean) / leading.std
        print(f"{name}: {leading.mean:.2f} +- {leading.std:.2f}, the next order adds {shift:+.3f} sd")


if __name__ == "__main__":
    main()
