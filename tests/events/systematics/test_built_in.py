import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import random_events

from covad.errors import CovadError
from covad.events.layout import Events
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES
from covad.events.systematics import (
    JetEnergyResolution,
    JetEnergyScale,
    LeptonEnergyScale,
    MetSoftScale,
    Systematic,
    make_systematic,
    shift_events,
)

ALL: list[Systematic] = [
    JetEnergyScale(),
    JetEnergyScale(propagate_to_met=True),
    JetEnergyScale(eta=(0.0, 1.3), pt=(30.0, 60.0)),
    LeptonEnergyScale(),
    MetSoftScale(),
    JetEnergyResolution(),
]


NU = st.floats(-3, 3)


def planar_sum(events: Events) -> np.ndarray:
    pt, phi = events.particles[..., 0].astype(float), events.particles[..., 2].astype(float)
    return np.stack([(pt * np.cos(phi)).sum(axis=1), (pt * np.sin(phi)).sum(axis=1)], axis=1)


@given(nu=NU, seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_jets_that_stay_above_the_cut_come_back(nu: float, seed: int) -> None:
    events = random_events(200, seed)
    there = shift_events(events, [JetEnergyScale()], [nu])
    back = shift_events(there.events, [JetEnergyScale()], [-nu])
    assert there.rows is not None
    original, returned = events.objects("jet")[there.rows], back.events.objects("jet")
    stayed = returned[..., 0] > 0
    np.testing.assert_allclose(returned[stayed], original[stayed], rtol=4e-7)
    scale = np.float32(np.exp(0.025 * nu))
    expected = (original[..., 0] * scale >= 23) & (
        original[..., 0] * scale * np.float32(np.exp(-0.025 * nu)) >= 23
    )
    assert np.array_equal(stayed, expected)


@pytest.mark.parametrize("nu", [-2.0, -1.0, 1.0, 2.0])
def test_jet_energy_scale_acts_on_jets_only_and_cuts_after_the_shift(events: Events, nu: float) -> None:
    shifted = shift_events(events, [JetEnergyScale()], [nu])
    scaled = events.objects("jet")[..., 0] * np.float32(np.exp(0.025 * nu))
    assert np.array_equal((shifted.events.objects("jet")[..., 0] > 0), scaled >= 23)
    for other in ("met", "electron", "muon"):
        assert np.array_equal(shifted.events.objects(other), events.objects(other))
    assert shifted.yield_ratio == 1.0


@pytest.mark.parametrize("systematic", ALL, ids=lambda s: s.name)
@given(nu=NU)
@settings(max_examples=10, deadline=None)
def test_a_shift_depends_on_the_event_alone(systematic: Systematic, nu: float) -> None:
    """Same event, same shift: whatever its neighbours, the order of events, or earlier calls."""
    events = random_events(100, seed=7)
    whole = systematic.shift(events, nu).events.particles
    order = np.random.default_rng(0).permutation(len(events))
    for rows in (order, order[:13]):
        assert np.array_equal(systematic.shift(events[rows], nu).events.particles, whole[rows])


@pytest.mark.parametrize("systematic", ALL, ids=lambda s: s.name)
def test_shifted_events_are_valid_and_input_is_left_alone(systematic: Systematic, events: Events) -> None:
    before = events.particles.copy()
    for nu in (-2.0, 0.0, 2.0):
        particles = systematic.shift(events, nu).events.particles
        events.layout.check(particles, "shifted")
        assert events.layout.tidy(particles)[1] == 0
        assert particles.dtype == np.float32
    assert np.array_equal(events.particles, before)


@pytest.mark.parametrize("systematic", ALL[:4], ids=lambda s: s.name)
def test_nominal_is_unshifted(systematic: Systematic, events: Events) -> None:
    np.testing.assert_allclose(systematic.shift(events, 0.0).events.particles, events.particles, atol=1e-5)


def test_propagation_to_met_keeps_the_total_momentum(events: Events) -> None:
    shifted = JetEnergyScale(propagate_to_met=True).shift(events, 2.0).events
    np.testing.assert_allclose(planar_sum(shifted), planar_sum(events), atol=1e-3)
    assert not np.allclose(shifted.objects("met"), events.objects("met"))


def test_met_soft_scale_scales_the_soft_term(events: Events) -> None:
    """soft = -(MET + objects); at nu it is e^{sigma nu} times as large, and the objects did not move."""
    shifted = MetSoftScale(sigma=0.1).shift(events, 1.0).events
    np.testing.assert_allclose(planar_sum(shifted), np.exp(0.1) * planar_sum(events), rtol=1e-4, atol=1e-3)
    assert np.array_equal(shifted.particles[:, 1:], events.particles[:, 1:])


def test_resolution_smears_by_the_stated_width() -> None:
    events = random_events(40_000, seed=3)
    systematic = JetEnergyResolution(stochastic=0.0, constant=0.1, seed=5)
    smeared = systematic.shift(events, 1.0).events
    one_jet = events.present("jet").sum(axis=1) == 1
    ratio = smeared.objects("jet")[one_jet, 0, 0] / events.objects("jet")[one_jet, 0, 0]
    width = 0.1 * np.sqrt(1.15**2 - 1)
    error = width / np.sqrt(2 * len(ratio))  # 4 standard errors: false alarm 6e-5
    assert abs(ratio.std() - width) < 4 * error
    assert abs(ratio.mean() - 1) < 4 * width / np.sqrt(len(ratio))
    for seed in (6, -5, 2**70):
        other = JetEnergyResolution(stochastic=0.0, constant=0.1, seed=seed).shift(events, 1.0).events
        assert not np.array_equal(other.particles, smeared.particles)


def test_resolution_uses_the_same_random_number_at_every_nu_and_scale(events: Events) -> None:
    """Smooth in nu and independent of other shifts of pt, so that samples at different nu stay matched."""
    systematic = JetEnergyResolution(stochastic=0.0, constant=0.02)
    pull = [systematic.shift(events, nu).events.objects("jet")[:, 0, 0] for nu in (0.0, 1e-3)]
    np.testing.assert_allclose(pull[0], pull[1], rtol=1e-4)
    scaled = JetEnergyScale(sigma=0.01).shift(systematic.shift(events, 1.0).events, 1.0).events
    smeared = systematic.shift(JetEnergyScale(sigma=0.01).shift(events, 1.0).events, 1.0).events
    np.testing.assert_allclose(scaled.particles, smeared.particles, rtol=1e-5)


def test_a_scale_of_a_region_moves_its_jets_alone_and_keeps_their_order():
    layout = ADC2021_LAYOUT
    start = layout.slots("jet").start
    particles = np.zeros((1, *layout.shape), dtype=np.float32)
    particles[0, start : start + 4] = [[70, 0.5, 1], [59, -0.5, 2], [58, 2.0, 3], [57, 1.2, 0]]
    events = Events(layout, particles, np.zeros(1, dtype=np.int16), PROCESS_NAMES)
    region = JetEnergyScale(sigma=0.1, eta=(0.0, 1.3), pt=(0.0, 60.0))
    moved = region.shift(events, 1.0).events.objects("jet")[0, :4]
    up = np.exp(0.1)
    np.testing.assert_allclose(moved[:, 0], [70, 59 * up, 57 * up, 58], rtol=1e-6)
    np.testing.assert_array_equal(moved[:, 2], [1, 2, 0, 3])
    assert region.shift(events, 0.0).events is events


@pytest.mark.parametrize("given", [(1.0,), (2.0, 1.0), (-1.0, 1.0), ("a", "b")])
def test_a_region_is_two_rising_numbers(given):
    with pytest.raises(CovadError, match=r"'jet_energy_scale': eta must be \[low, high\]"):
        JetEnergyScale(eta=given)


def test_several_nuisances_of_one_sort_have_names_of_their_own():
    made = make_systematic({"name": "forward", "built_in": "jet_energy_scale", "eta": [2, 5]})
    assert made == JetEnergyScale(name="forward", eta=(2, 5))
