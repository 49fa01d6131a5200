"""Separate samples give way to the events of a process, at +-1 only."""

import numpy as np
import pytest
from samples import random_events

from covad.errors import CovadError
from covad.events.selection import NO_CUTS
from covad.events.systematics import Alternative, Nuisance, SeparateSamples, shift_events
from covad.events.systematics.samples import sides

BOTH, ONE_SIDED = SeparateSamples("model", "qcd"), SeparateSamples("model", "qcd", one_sided=True)


@pytest.mark.parametrize(
    ("effects", "nu", "left"),
    [
        ([BOTH], [0.0], 1.0),
        ([BOTH], [1.0], 0.0),
        ([BOTH], [-1.0], 0.0),
        ([ONE_SIDED], [1.0], 0.0),
        ([ONE_SIDED], [-1.0], 2.0),
        ([BOTH, SeparateSamples("shower", "qcd")], [1.0, 1.0], -1.0),
        ([ONE_SIDED, SeparateSamples("shower", "qcd", one_sided=True)], [-1.0, -1.0], 3.0),
    ],
)
def test_the_process_gives_way_to_what_samples_change(effects, nu, left):
    events = random_events(100, seed=1)
    weights = shift_events(events, effects, nu, NO_CUTS).weights
    np.testing.assert_array_equal(weights, np.where(events.process == 1, left, 1.0))


@pytest.mark.parametrize("nu", [0.5, 2.0, -2.0])
def test_there_is_nothing_between_and_beyond_one_sigma(nu):
    with pytest.raises(
        CovadError, match=f"'model' has separate samples.*at nu = -1, 0 and 1 only, not at {nu:g}"
    ):
        BOTH.shift(random_events(5, seed=1), nu)


def test_samples_take_part_on_their_side():
    assert sides(one_sided=False) == {"up": {1.0: 1.0}, "down": {-1.0: 1.0}}
    other = Alternative(1, sides(one_sided=True)["up"], lambda: iter(()))
    assert [other.factor((0.3, nu)) for nu in (-1.0, 0.0, 1.0)] == [-1.0, 0.0, 1.0]


def test_a_nuisance_knows_what_it_does():
    model = Nuisance("model", (BOTH,))
    assert (model.moves, model.weighs, model.discrete) == (False, True, True)
    assert model.without_samples.effects == ()
