"""Four-momenta, decays and spectra against closed forms."""

import numpy as np
import pytest

from covad.simulation.kinematics import (
    FourMomentum,
    breakup_momentum,
    breit_wigner,
    columns,
    concatenate,
    delta_phi,
    direction,
    falling,
    isotropic,
    transverse_sum,
    two_body,
)

N = 20_000


@pytest.fixture
def rng():
    return np.random.default_rng(20211)


@pytest.fixture
def parent(rng):
    return FourMomentum.from_pt_rapidity(
        rng.exponential(30.0, N), rng.uniform(-3, 3, N), rng.uniform(-np.pi, np.pi, N), np.full(N, 80.4)
    )


def test_pt_rapidity_and_mass_come_back(parent):
    again = FourMomentum.from_pt_rapidity(
        parent.pt, np.arctanh(parent.pz / parent.e), parent.phi, parent.mass
    )
    for name in ("px", "py", "pz", "e"):
        np.testing.assert_allclose(getattr(again, name), getattr(parent, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parent.mass, 80.4, rtol=1e-9)


def test_massless_rapidity_is_pseudorapidity(rng):
    eta = rng.uniform(-4, 4, N)
    particle = FourMomentum.from_pt_rapidity(np.full(N, 20.0), eta, np.zeros(N), 0.0)
    np.testing.assert_allclose(particle.eta, eta, rtol=1e-12)
    np.testing.assert_allclose(particle.pt_eta_phi()[:, 0], 20.0)


def test_absent_particle_has_no_direction():
    nothing = FourMomentum(*np.zeros((4, 3)))
    np.testing.assert_array_equal(nothing.pt_eta_phi(), np.zeros((3, 3)))


@pytest.mark.parametrize("masses", [(0.0, 0.0), (0.1, 30.0), (40.0, 40.0)])
def test_decay_conserves_momentum_and_masses(rng, parent, masses):
    first, second = (p.boosted(parent) for p in two_body(parent.mass, *masses, isotropic(rng, N)))
    total = first + second
    for name in ("px", "py", "pz", "e"):
        np.testing.assert_allclose(getattr(total, name), getattr(parent, name), rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(first.mass, masses[0], atol=2e-3)
    np.testing.assert_allclose(second.mass, masses[1], atol=2e-3)


def test_boost_of_a_particle_at_rest_is_the_frame_itself(parent):
    still = np.zeros(N)
    boosted = FourMomentum(still, still, still, parent.mass).boosted(parent)
    np.testing.assert_allclose((boosted - parent).e, 0.0, atol=1e-9)
    np.testing.assert_allclose((boosted - parent).pz, 0.0, atol=1e-9)


def test_invariant_mass_of_unrelated_particles_survives_a_boost(rng, parent):
    a = FourMomentum.from_pt_rapidity(*rng.uniform(1, 2, (3, N)), 0.5)
    b = FourMomentum.from_pt_rapidity(*rng.uniform(1, 2, (3, N)), 1.5)
    np.testing.assert_allclose((a.boosted(parent) + b.boosted(parent)).mass, (a + b).mass, rtol=1e-6)


def test_direction_keeps_its_angle_to_the_axis(rng):
    axis, cosine = isotropic(rng, N), rng.uniform(-1, 1, N)
    towards = direction(cosine, rng.uniform(-np.pi, np.pi, N), axis)
    np.testing.assert_allclose(sum(d**2 for d in towards), 1.0, rtol=1e-9)
    np.testing.assert_allclose(sum(d * a for d, a in zip(towards, axis, strict=True)), cosine, atol=1e-9)


def test_direction_around_the_beam_itself():
    beam = (np.zeros(2), np.zeros(2), np.array([1.0, -1.0]))
    x, y, z = direction(np.array([0.6, 0.6]), np.zeros(2), beam)
    np.testing.assert_allclose(z, [0.6, -0.6], atol=1e-9)
    np.testing.assert_allclose(x**2 + y**2, 0.64, atol=1e-9)


def test_isotropic_directions_have_no_preference(rng):
    # Means of N uniform components: 5 sigma of 1 / sqrt(3 N), false alarm 2e-6 for the three together.
    for component in isotropic(rng, N):
        assert abs(component.mean()) < 5 / np.sqrt(3 * N)


def test_breakup_momentum():
    assert breakup_momentum(10.0, 0.0, 0.0) == pytest.approx(5.0)
    assert breakup_momentum(10.0, 6.0, 4.0) == 0.0
    assert breakup_momentum(10.0, 8.0, 4.0) == 0.0


def test_breit_wigner_peaks_with_its_width(rng):
    mass = breit_wigner(rng, N, 91.19, 2.495, 30.0, 500.0)
    assert mass.min() >= 30.0
    assert mass.max() <= 500.0
    # Half of a Breit-Wigner lies within half a width: 5 sigma binomial, false alarm 6e-7.
    within = (np.abs(mass - 91.19) < 2.495 / 2).mean()
    assert within == pytest.approx(0.5, abs=0.01 + 5 * 0.5 / np.sqrt(N))


def test_falling_spectrum_has_its_power(rng):
    value = falling(rng, N, 20.0, 5.0, 500.0)
    assert value.min() >= 20.0
    assert value.max() <= 500.0
    # Share above twice the lower end is 2 ** -4: 5 sigma binomial, false alarm 6e-7.
    assert (value > 40.0).mean() == pytest.approx(2.0**-4, abs=5 * np.sqrt(2.0**-4 / N))


def test_delta_phi_wraps():
    np.testing.assert_allclose(delta_phi(np.array([3.0, 0.1]), np.array([-3.0, 0.2])), [6 - 2 * np.pi, -0.1])


def test_columns_and_rows_of_particles(parent):
    both = columns([parent, columns([parent, parent])])
    assert both.shape == (N, 3)
    np.testing.assert_allclose(transverse_sum(both)[:, 0], 3 * parent.px)
    assert concatenate([parent, parent[:5]]).shape == (N + 5,)
    np.testing.assert_allclose(parent.scaled(0.25).pt, 0.25 * parent.pt)
