import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covad.errors import LayoutError, SimulationError
from covad.events.processes import ADC2021_LAYOUT
from covad.simulation.detector import Detector, Truth, overlay_pileup

IDEAL = Detector(
    jet_stochastic=0,
    jet_constant=0,
    electron_resolution=0,
    electron_efficiency=1,
    muon_resolution=0,
    muon_efficiency=1,
    soft_noise=0,
)
ELECTRON, MUON, JET = (ADC2021_LAYOUT.slots(name) for name in ("electron", "muon", "jet"))


def one_event(electrons=(), muons=(), jets=(), soft=(0.0, 0.0)):
    objects = [np.array(o, dtype=float).reshape(1, -1, 3) for o in (electrons, muons, jets)]
    return Truth(*objects, np.array([soft], dtype=float))


def jets_only(jets):
    n = len(jets)
    return Truth(np.zeros((n, 0, 3)), np.zeros((n, 0, 3)), jets, np.zeros((n, 2)))


def measure(detector, truth, seed=0):
    return detector.measure(truth, np.random.default_rng(seed))


def test_ideal_detector_returns_the_objects_sorted_by_pt():
    event = measure(IDEAL, one_event(jets=[(30, 1, 0.5), (80, -2, 1.5)], muons=[(40, 0.1, -1)]))[0]
    np.testing.assert_allclose(event[JET][:2], [(80, -2, 1.5), (30, 1, 0.5)], rtol=1e-6)
    np.testing.assert_allclose(event[MUON][0], (40, 0.1, -1), rtol=1e-6)
    assert not event[ELECTRON].any()
    assert not event[JET][2:].any()


def test_missing_momentum_balances_leptons_jets_and_soft_rest():
    truth = one_event(
        electrons=[(30, 0, 0)], muons=[(20, 0, np.pi / 2)], jets=[(50, 0, np.pi)], soft=(5.0, -8.0)
    )
    met = measure(IDEAL, truth)[0, 0]
    np.testing.assert_allclose(met, (np.hypot(15, 12), 0, np.arctan2(-12, 15)), rtol=1e-6)


def test_jets_below_threshold_fill_no_slot_but_count_in_the_balance():
    event = measure(IDEAL, one_event(jets=[(14.9, 0, 0)]))[0]
    assert not event[JET].any()
    np.testing.assert_allclose(np.abs(event[0]), (14.9, 0, np.pi), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "slots", "eta_max"), [("electrons", ELECTRON, 3), ("muons", MUON, 2.1), ("jets", JET, 4)]
)
def test_acceptance_ends_at_the_stated_pseudorapidity(kind, slots, eta_max):
    inside, outside = (
        measure(IDEAL, one_event(**{kind: [(50, eta, 0)]}))[0] for eta in (eta_max - 0.01, -eta_max - 0.01)
    )
    assert inside[slots, 0].any()
    assert not outside[slots].any()


def test_only_muons_beyond_the_tracker_are_missing():
    electron = measure(IDEAL, one_event(electrons=[(50, 3.5, 0)], soft=(-50, 0)))[0, 0, 0]
    tracked = measure(IDEAL, one_event(muons=[(50, 2.3, 0)], soft=(-50, 0)))[0, 0, 0]
    lost = measure(IDEAL, one_event(muons=[(50, 2.5, 0)], soft=(-50, 0)))[0, 0, 0]
    assert electron == pytest.approx(0, abs=1e-9)
    assert tracked == pytest.approx(0, abs=1e-9)
    assert lost == pytest.approx(50)


def test_more_jets_than_slots_keeps_the_hardest_and_the_balance():
    pts = np.arange(20.0, 33.0)
    event = measure(IDEAL, one_event(jets=[(pt, 0, 0.7) for pt in pts]))[0]
    np.testing.assert_allclose(event[JET][:, 0], pts[::-1][:10])
    assert event[0, 0] == pytest.approx(pts.sum())


def test_jet_resolution_is_stochastic_and_constant_in_quadrature():
    detector = Detector()
    jets = np.tile([60.0, 0.0, 0.0], (40_000, 1, 1))
    relative = measure(detector, jets_only(jets), seed=1)[:, JET.start, 0] / 60
    expected = np.hypot(0.8 / np.sqrt(60), 0.05)
    # 4.5 standard errors each, that is a false alarm in 10^5 runs; the seed is fixed.
    assert relative.mean() == pytest.approx(1, abs=4.5 * expected / 200)
    assert relative.std() == pytest.approx(expected, rel=4.5 / np.sqrt(2 * 40_000))


def test_efficiency_loses_leptons_but_not_their_momentum():
    detector = Detector(electron_efficiency=0.7, electron_resolution=0, soft_noise=0)
    n = 20_000
    electrons = np.tile([50.0, 0.0, 0.0], (n, 1, 1))
    truth = Truth(electrons, np.zeros((n, 0, 3)), np.zeros((n, 0, 3)), np.tile([-50.0, 0.0], (n, 1)))
    events = measure(detector, truth, seed=2)
    # 4.5 binomial standard errors: a false alarm in 10^5 runs.
    assert (events[:, ELECTRON.start, 0] > 0).mean() == pytest.approx(0.7, abs=4.5 * np.sqrt(0.21 / n))
    assert events[:, 0, 0].max() < 1e-9


def test_pileup_adds_soft_jets_and_missing_momentum():
    n = 20_000
    empty = jets_only(np.zeros((n, 0, 3)))
    quiet = measure(IDEAL, empty)
    noisy = measure(Detector(pileup_jets=0.6, soft_noise=0), empty, seed=3)
    n_jets = (noisy[:, JET, 0] > 0).sum(axis=1)
    pt = noisy[:, JET, 0][noisy[:, JET, 0] > 0]
    assert not quiet.any()
    # 4.5 standard errors each: false alarms in 10^5 runs. The mean of pt^-5 above 15 GeV is 15 * 4/3.
    assert n_jets.mean() == pytest.approx(0.6, abs=4.5 * np.sqrt(0.6 / n))
    assert pt.mean() == pytest.approx(20, abs=4.5 * pt.std() / np.sqrt(len(pt)))
    one = n_jets == 1
    np.testing.assert_allclose(noisy[one, 0, 0], 0.5 * noisy[one, JET.start, 0], rtol=1e-5)


def test_overlaid_pileup_leaves_the_rest_and_adds_the_same_jets():
    rng = np.random.default_rng(4)
    jets = np.tile([60.0, 1.0, 0.0], (20_000, 2, 1))
    measured = Detector().measure(jets_only(jets), rng)
    np.testing.assert_allclose(overlay_pileup(measured, 0.0, rng), measured, rtol=2e-5, atol=2e-4)
    n_jets = (overlay_pileup(measured, 0.6, rng)[:, JET, 0] > 0).sum(axis=1)
    # 4.5 standard errors: a false alarm in 10^5 runs.
    before = (measured[:, JET, 0] > 0).sum(axis=1).mean()
    assert n_jets.mean() == pytest.approx(before + 0.6, abs=4.5 * np.sqrt(0.6 / 20_000))


def test_lepton_filter_takes_either_flavour():
    leptons = [
        {"electrons": [(24, 0, 0)]},
        {"muons": [(24, 0, 0)]},
        {"muons": [(22, 0, 0)]},
        {"jets": [(90, 0, 0)]},
    ]
    events = np.concatenate([measure(IDEAL, one_event(**objects)) for objects in leptons])
    assert IDEAL.accepts(events).tolist() == [True, True, False, False]


@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(0, 14), st.sampled_from([0.0, 1.5]))
def test_measured_events_obey_the_layout(seed, n_events, n_jets, pileup):
    rng = np.random.default_rng(seed)

    def objects(n):
        values = np.stack(
            [
                rng.exponential(30, (n_events, n)),
                rng.uniform(-5, 5, (n_events, n)),
                rng.uniform(-3, 3, (n_events, n)),
            ],
            axis=-1,
        )
        values[rng.random((n_events, n)) < 0.3] = 0
        return values

    truth = Truth(objects(5), objects(5), objects(n_jets), rng.normal(0, 10, (n_events, 2)))
    events = Detector(pileup_jets=pileup).measure(truth, rng)
    assert events.shape == (n_events, *ADC2021_LAYOUT.shape)
    assert events.dtype == np.float32
    ADC2021_LAYOUT.check(events, "measured")
    assert ADC2021_LAYOUT.tidy(events)[1] == 0


def test_same_random_numbers_give_the_same_events():
    truth = jets_only(np.tile([60.0, 0.0, 0.0], (50, 3, 1)))
    assert np.array_equal(measure(Detector(), truth, 7), measure(Detector(), truth, 7))
    assert not np.array_equal(measure(Detector(), truth, 7), measure(Detector(), truth, 8))


@pytest.mark.parametrize(
    "setting",
    [
        {"jet_pt_min": -1},
        {"soft_noise": np.nan},
        {"muon_efficiency": 1.1},
        {"pileup_power": 2},
        {"pileup_jets": 1e9},
    ],
)
def test_impossible_settings_are_refused_by_name(setting):
    with pytest.raises(SimulationError, match=next(iter(setting))):
        Detector(**setting)


def test_truth_of_wrong_shape_is_refused():
    with pytest.raises(LayoutError, match="jets"):
        jets_only(np.zeros((5, 3)))
    with pytest.raises(LayoutError, match="soft"):
        Truth(*[np.zeros((5, 1, 3))] * 3, np.zeros((5, 3)))
