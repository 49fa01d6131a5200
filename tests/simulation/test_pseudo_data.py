"""Pseudo-data hold the background as it is, the signals that were asked for, and shifted objects."""

import numpy as np
import pytest

from covad.errors import CovadError
from covad.events.layout import Events, concatenate
from covad.simulation.pseudo_data import PseudoData
from covad.simulation.simulate import ENGINES, Simulation

BACKGROUND = Simulation("background", 2000, seed=4)


def make(data: PseudoData | Simulation) -> Events:
    return concatenate(list(data.blocks()))


def test_without_signals_and_shifts_it_is_the_sample() -> None:
    assert make(PseudoData(BACKGROUND)).particles.tobytes() == make(BACKGROUND).particles.tobytes()
    assert PseudoData(BACKGROUND).provenance == BACKGROUND.provenance


def test_signals_are_hidden_among_the_background_of_every_block() -> None:
    block = ENGINES["parametric"].block_size
    data = PseudoData(Simulation("background", 2 * block, seed=4), {"a4l": 60, "lq": 20})
    events = make(data)
    counts = events.process_counts()
    assert (counts.pop("a4l"), counts.pop("lq"), sum(counts.values())) == (60, 20, 2 * block)
    assert data.n_events == len(events)
    hidden = np.flatnonzero(events.process == events.process_names.index("a4l"))
    assert 0 < (hidden < block).sum() < 60  # both blocks have some: chance of a false alarm 2^-59
    assert len(hidden) == 60
    assert np.ptp(np.diff(hidden)) > 0
    rows = {row.tobytes() for row in make(data.sample).particles}
    assert rows < {row.tobytes() for row in events.particles}


@pytest.mark.parametrize("amount", [0.05, -0.05])
def test_a_shift_moves_jets_by_its_amount(amount: float) -> None:
    shifted = make(PseudoData(BACKGROUND, shifts={"jet_energy_scale": amount}))
    before, after = (events.objects("jet")[..., 0].sum() for events in (make(BACKGROUND), shifted))
    assert after / before == pytest.approx(np.exp(amount), rel=1e-3)


def test_its_provenance_says_what_is_hidden() -> None:
    data = PseudoData(BACKGROUND, {"a4l": 6}, {"jet_energy_scale": 0.025})
    assert make(data).provenance == BACKGROUND.provenance | {
        "injected": {"a4l": 6},
        "shifts": {"jet_energy_scale": 0.025},
    }


def test_as_many_events_as_the_memory_holds_can_be_hidden() -> None:
    large = Simulation("background", 10**9, seed=4)
    PseudoData(large, {"a4l": 10_000_000}, {"met_soft_scale": -0.5})
    with pytest.raises(CovadError, match=r"--inject: 500000000 events .* inject at most 10000000"):
        PseudoData(large, {"a4l": 500_000_000})


@pytest.mark.parametrize(
    ("injected", "shifts", "message"),
    [
        ({"higgs": 5}, {}, "unknown process 'higgs'"),
        ({"a4l": 0}, {}, "--inject: at least one event of a4l"),
        ({"a4l": -5}, {}, "--inject: at least one event of a4l can be hidden, not -5"),
        ({"a4l": 1500, "lq": 501}, {}, "--inject: 2001 events .* a sample of 2000: inject at most 2000"),
        ({}, {"jet_energy_scale": 5.0}, "--shift: .* relative, 0.025 is 2.5 %, .* from -0.5 to 0.5, not 5"),
        ({}, {"jet_energy_resolution": -0.51}, "--shift: the amount of jet_energy_resolution is relative"),
        ({"background": 5}, {}, "background is the sample itself"),
        ({}, {"tau_scale": 0.1}, "unknown systematic 'tau_scale'"),
    ],
)
def test_impossible_pseudo_data_are_refused(injected: dict, shifts: dict, message: str) -> None:
    with pytest.raises(CovadError, match=message):
        PseudoData(BACKGROUND, injected, shifts)
