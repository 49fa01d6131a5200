from dataclasses import replace

import numpy as np
import pytest
from samples import random_events

from covad.errors import CovadError
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale, LeptonEnergyScale, shift_events, unchanged_partners

SELECTION = Selection(trigger_minimum=40.0)


@pytest.mark.parametrize(("nu", "scale"), [(1.0, JetEnergyScale()), (-1.0, LeptonEnergyScale(sigma=0.05))])
def test_partners_are_the_same_event_and_nothing_else(nu, scale):
    events = random_events(400, seed=2)
    nominal, shifted = (shift_events(events, [scale], [value], SELECTION) for value in (0.0, nu))
    partner = unchanged_partners(nominal, shifted)
    where = {int(row): number for number, row in enumerate(nominal.rows)}
    for number, row in enumerate(shifted.rows):
        same = int(row) in where and np.array_equal(
            nominal.events.particles[where[int(row)]], shifted.events.particles[number]
        )
        assert partner[number] == (where[int(row)] if same else -1)
    assert (partner >= 0).sum() > 0 or isinstance(scale, LeptonEnergyScale)


def test_no_shift_changes_nothing():
    nominal = shift_events(random_events(50, seed=2), [JetEnergyScale()], [0.0], SELECTION)
    assert np.array_equal(unchanged_partners(nominal, nominal), np.arange(len(nominal.events)))


def test_samples_that_do_not_match_are_refused():
    nominal = shift_events(random_events(50, seed=2), [JetEnergyScale()], [0.0], SELECTION)
    with pytest.raises(CovadError, match="event-matched"):
        unchanged_partners(nominal, replace(nominal, rows=None))
