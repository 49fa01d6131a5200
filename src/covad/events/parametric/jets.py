"""How the partons of a hard process become jets: final-state radiation, losses, neutrinos of b decays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.events.kinematics import BoolArray, FloatArray, FourMomentum, columns, scatter, transverse_sum
from covad.events.parametric.products import HardEvents
from covad.events.parametric.radiation import SOFTEST_JET


@dataclass(frozen=True)
class FinalState:
    """Shower and hadronisation of a parton, seen through a jet algorithm."""

    loss: float = 0.08  #: mean share of the momentum that ends up outside of all jets
    splitting: float = 0.22  #: chance of a second jet for each unit of log(pt / SOFTEST_JET)
    angle: float = 0.45  #: smallest distance in eta and phi between the two,
    spread: float = 0.5  #: and mean of its exponential excess
    neutrino_chance: float = 0.35  #: that a b jet contains neutrinos,
    neutrino_share: float = 0.18  #: and the mean share of its momentum that they take


FINAL_STATE = FinalState()


def form_jets(rng: np.random.Generator, hard: HardEvents) -> tuple[FourMomentum, FloatArray]:
    """Particle-level jets, (N, k), and the visible momentum outside of jets, (N, 2)."""
    products, tune = hard.products, FINAL_STATE
    partons = columns([products.bottom, products.light, hard.radiation.jets])
    present = partons.e > 0
    bottom = np.zeros(partons.shape, dtype=bool)
    bottom[:, : products.bottom.shape[1]] = True
    visible = _lose_neutrinos(rng, partons[present], bottom[present], tune)
    kept = np.maximum(1.0 - tune.loss * rng.standard_exponential(len(visible.e)), 0.0)
    cores, sprays = _split(rng, visible.scaled(kept), tune)
    outside = scatter(visible.scaled(1.0 - kept), present)
    jets = columns([scatter(cores, present), scatter(sprays, present), products.narrow])
    return _drop_soft_jets(jets, hard.radiation.soft + transverse_sum(outside))


def _drop_soft_jets(jets: FourMomentum, soft: FloatArray) -> tuple[FourMomentum, FloatArray]:
    """Count what is too soft for a jet as soft momentum."""
    hard_enough = (jets.pt > SOFTEST_JET).astype(float)
    return jets.scaled(hard_enough), soft + transverse_sum(jets.scaled(1.0 - hard_enough))


def _lose_neutrinos(
    rng: np.random.Generator, quarks: FourMomentum, bottom: BoolArray, tune: FinalState
) -> FourMomentum:
    """b jets without the share of their neutrinos."""
    n = len(quarks.e)
    share = rng.beta(1.5, 1.5 / tune.neutrino_share - 1.5, n)
    affected = bottom & (rng.random(n) < tune.neutrino_chance)
    return quarks.scaled(1.0 - share * affected)


def _split(
    rng: np.random.Generator, quarks: FourMomentum, tune: FinalState
) -> tuple[FourMomentum, FourMomentum]:
    """Each quark and the second jet it radiates (zeros if none); their momenta add up to the quark's."""
    n = len(quarks.e)
    pt = quarks.pt
    reach = np.log(np.maximum(pt / (2 * SOFTEST_JET), 1.0))
    radiates = rng.random(n) < 1.0 - np.exp(-tune.splitting * reach)
    share = 0.5 * np.exp(-reach * rng.random(n))
    distance = tune.angle + tune.spread * rng.standard_exponential(n)
    turn = rng.uniform(-np.pi, np.pi, n)
    spray = FourMomentum.from_pt_rapidity(
        pt * share * radiates,
        quarks.eta + distance * np.sin(turn),
        quarks.phi + distance * np.cos(turn),
        0.0,
    )
    return quarks - spray, spray
