import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import random_events, weighted_events

from covad.errors import CovadError, EventContentError
from covad.events.layout import Collection, EventLayout, Events
from covad.events.selection import NO_CUTS, Selection
from covad.events.systematics import (
    BUILT_IN,
    BadEventError,
    JetEnergyResolution,
    JetEnergyScale,
    LeptonEnergyScale,
    MetSoftScale,
    SelectionMarginError,
    Systematic,
    UserSystematic,
    Variation,
    make_systematic,
    shift_events,
    unchanged_partners,
)
from covad.events.users_code import load_function

ALL: list[Systematic] = [
    JetEnergyScale(),
    JetEnergyScale(propagate_to_met=True),
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


def test_shifts_compose_in_order(events: Events) -> None:
    both = shift_events(events, [JetEnergyScale(), LeptonEnergyScale()], [1.0, -1.0])
    assert np.array_equal(
        both.events.objects("electron")[..., 0],
        events.objects("electron")[both.rows][..., 0] * np.float32(np.exp(-0.01)),
    )
    assert np.array_equal(
        both.events.objects("jet"),
        shift_events(events, [JetEnergyScale()], [1.0]).events.objects("jet")[both.rows],
    )


def test_yield_ratio_counts_events_that_cross_the_trigger(events: Events) -> None:
    selection = Selection(trigger_minimum=40.0)
    lead = np.maximum(
        events.objects("electron")[..., 0].max(axis=1), events.objects("muon")[..., 0].max(axis=1)
    )
    for nu in (-2.0, 2.0):
        shifted = shift_events(events, [LeptonEnergyScale(sigma=0.05)], [nu], selection)
        expected = (lead * np.float32(np.exp(0.05 * nu)) >= 40).sum() / (lead >= 40).sum()
        assert shifted.yield_ratio == pytest.approx(expected)
        assert (shifted.yield_ratio > 1) == (nu > 0)


def test_a_sample_without_margin_is_refused(events: Events) -> None:
    filtered = Events(
        events.layout, events.particles, events.process, events.process_names, {"lepton_filter": 23.0}
    )
    shift_events(filtered, [JetEnergyScale()], [2.0])
    shift_events(filtered, [LeptonEnergyScale()], [-1.0])
    with pytest.raises(SelectionMarginError, match=r"lepton filter below 22\.77 GeV"):
        shift_events(filtered, [LeptonEnergyScale()], [1.0])
    shift_events(filtered, [LeptonEnergyScale()], [1.0], Selection(trigger_minimum=25.0))


def test_weight_variations_and_varied_samples_fit_the_protocol(events: Events) -> None:
    """The two kinds of systematic that come next: the protocol carries them already."""

    class Reweighting:
        name, sigma = "pdf", 1.0

        def shift(self, events: Events, nu: float) -> Variation:
            return Variation(events, weights=np.exp(0.1 * nu * (events.process == 0)))

    class VariedSample:
        name, sigma = "shower", 1.0

        def shift(self, events: Events, nu: float) -> Variation:
            return Variation(random_events(500, seed=9), weights=np.full(500, 4.0), matched=False)

    shifted = shift_events(events, [Reweighting(), JetEnergyScale()], [1.0, 0.5])
    assert shifted.yield_ratio == pytest.approx(np.exp(0.1 * (events.process == 0)).mean())
    varied = shift_events(events, [VariedSample(), Reweighting()], [1.0, 0.0])
    assert varied.rows is None
    assert varied.yield_ratio == pytest.approx(1.0)
    with pytest.raises(CovadError, match="must be the first"):
        shift_events(events, [Reweighting(), VariedSample()], [1.0, 1.0])


def test_weights_of_the_events_start_those_of_shifted_ones() -> None:
    events = weighted_events(2000, seed=6)
    selection = Selection(trigger_minimum=45.0)
    scale, factor = LeptonEnergyScale(sigma=0.05), 1.0 + 0.1 * np.arange(2000) / 2000

    @dataclass(frozen=True)
    class Reweighting:
        name: str = "reweighting"
        sigma: float = 1.0

        def shift(self, given: Events, nu: float) -> Variation:
            return Variation(given, factor**nu)

    shifted = shift_events(events, [scale, Reweighting()], [1.0, 1.0], selection)
    plain = shift_events(replace(events, weights=None), [scale, Reweighting()], [1.0, 1.0], selection)
    np.testing.assert_array_equal(shifted.rows, plain.rows)
    assert shifted.rows is not None
    np.testing.assert_array_equal(shifted.weights, (events.event_weights * factor)[shifted.rows])
    np.testing.assert_array_equal(plain.weights, factor[shifted.rows])
    passing = selection.triggers(events)
    assert shifted.nominal_yield == events.event_weights[passing].sum()
    assert plain.nominal_yield == passing.sum()
    assert (shifted.weights < 0).any()
    ratio = shifted.weights.sum() / events.event_weights[passing].sum()
    assert shifted.yield_ratio == pytest.approx(ratio)
    assert shifted.yield_ratio != pytest.approx(plain.yield_ratio, rel=1e-4)


def test_a_varied_sample_has_weights_of_its_own(events: Events) -> None:
    other = weighted_events(100, seed=7)

    @dataclass(frozen=True)
    class Varied:
        name: str = "varied"
        sigma: float = 1.0

        def shift(self, given: Events, nu: float) -> Variation:
            return Variation(other, np.full(100, 3.0), matched=False) if nu else Variation(given)

    shifted = shift_events(events, [Varied(), JetEnergyScale()], [1.0, 0.0], NO_CUTS)
    np.testing.assert_array_equal(shifted.weights, 3.0 * other.event_weights)
    assert shifted.nominal_yield == len(events)


def test_a_negative_yield_at_nominal_is_refused() -> None:
    events = weighted_events(50, seed=6)
    upside_down = replace(events, weights=-events.event_weights)
    with pytest.raises(EventContentError, match=r"at nu = 0 add up to -.*a negative yield has no density"):
        _ = shift_events(upside_down, [JetEnergyScale()], [1.0], NO_CUTS).yield_ratio


def test_a_users_function_keeps_the_weights() -> None:
    """Also one that knows nothing of weights, and builds its events anew."""
    events = weighted_events(50, seed=6)

    def function(given: Events, amount: float) -> Events:
        particles = given.particles * np.float32(1.0 + amount)
        return Events(given.layout, particles, given.process, given.process_names)

    shifted = shift_events(events, [UserSystematic("own", 0.01, function)], [1.0], NO_CUTS)
    np.testing.assert_array_equal(shifted.weights, events.event_weights)
    np.testing.assert_array_equal(shifted.events.variations["pdf_1"], events.variations["pdf_1"])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_users_function_may_not_change_weights(weighted: bool) -> None:
    events = weighted_events(50, seed=6) if weighted else random_events(50, seed=6)

    def reweight(given: Events, amount: float) -> Events:
        factor = np.where(np.arange(len(given)) < 7, 1.0, 1.0 + amount)
        return replace(given, weights=given.event_weights * factor)

    with pytest.raises(BadEventError, match=r"must move objects and keep the weights, but changed .* 7$"):
        UserSystematic("own", 0.01, reweight).shift(events, 1.0)

    def in_place(given: Events, amount: float) -> Events:
        given.event_weights[:] *= 1.0 + amount
        return given

    if weighted:
        with pytest.raises(CovadError, match="changes the events that it was given"):
            UserSystematic("own", 0.01, in_place).shift(events, 1.0)


def test_a_users_function_gets_the_amount_in_its_own_units(events: Events) -> None:
    amounts = []

    def drop_muons(given_events: Events, amount: float) -> Events:
        amounts.append(amount)
        particles = given_events.particles.copy()
        particles[:, given_events.layout.slots("muon"), 0] = 0
        return given_events.with_particles(particles)

    mine = UserSystematic("mine", 0.5, drop_muons)
    shifted = mine.shift(events, 2.0).events
    assert amounts == [1.0]
    assert not shifted.objects("muon").any()


def test_what_a_users_function_returns_is_checked(events: Events) -> None:
    def scale(given_events: Events, amount: float) -> Events:
        return given_events.with_particles(given_events.particles * np.float32(amount))

    with pytest.raises(
        EventContentError, match="systematic 'bad': pt of met is negative at the amount -1 in event 0"
    ):
        UserSystematic("bad", 1.0, scale).shift(events, -1.0)
    with pytest.raises(
        EventContentError, match="systematic 'bad': pt of met is not finite at the amount nan in event 0"
    ):
        UserSystematic("bad", 1.0, scale).shift(events, float("nan"))
    other = random_events(len(events), seed=1, layout=EventLayout((Collection("jet", 2),)))
    with pytest.raises(CovadError, match="'bad' must return events of the layout"):
        UserSystematic("bad", 1.0, lambda *_: other).shift(events, 1.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda e, _: e[:5], "returned 5 of 2000 events, .* seems to be event 5$"),
        (lambda e, _: e[np.r_[:7, 8:2000]], "returned 1999 of 2000 events, .* seems to be event 7$"),
        (lambda e, _: e[np.r_[:2000, 0]], "returned 2001 events for 2000, but must add none"),
        (lambda e, _: e[::-1], "must keep the order of the events and their processes, but changed"),
        (lambda *_: None, "must return Events, not NoneType"),
        (lambda e, _: (e, np.ones(len(e))), "must return Events, not tuple"),
        (lambda e, _: e.particles, "must return Events, not ndarray"),
        (lambda e, _: e.with_particles(np.ma.masked_invalid(e.particles)), "plain numpy array, not a Masked"),
        (lambda e, _: e.with_particles(e.particles.astype(float)), "ended in LayoutError: .*float64.*line"),
        (lambda e, _: e.with_particles(e.particles.astype(object)), "ended in LayoutError: .*object.*line"),
        (lambda e, _: e.with_particles(e.particles[:, :3]), "ended in LayoutError: .*shape.*line"),
        (lambda e, _: e.with_particles(e.particles * np.float32(np.nan)), "not finite at the amount 1 in"),
        (lambda *_: sys.exit(0), r"ended in SystemExit: 0 \(.*test_systematics.py, line"),
        (lambda *_: sys.exit(), r"ended in SystemExit"),
    ],
)
def test_what_a_users_function_may_not_do_is_one_sentence(
    events: Events, function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(CovadError, match=f"systematic 'bad'.*{message}") as failure:
        UserSystematic("bad", 1.0, function).shift(events, 1.0)
    assert "\n" not in str(failure.value)


def test_a_users_function_cannot_change_its_input(events: Events) -> None:
    def scale(given_events: Events, amount: float) -> Events:
        given_events.objects("jet")[..., 0] *= 1 + amount
        return given_events

    def relabel(given_events: Events, _: float) -> Events:
        given_events.process[0] = 1
        return given_events

    before = events.particles.copy()
    for function in (scale, relabel):
        line = function.__code__.co_firstlineno + 1
        with pytest.raises(CovadError, match=rf"'bad' changes the events .*line {line}\): change a copy"):
            UserSystematic("bad", 1.0, function).shift(events, 1.0)
    assert np.array_equal(events.particles, before)
    assert events.particles.flags.writeable


def test_ctrl_c_within_a_users_function_stays_what_it_is(events: Events) -> None:
    def interrupted(*_: object) -> Events:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        UserSystematic("bad", 1.0, interrupted).shift(events, 1.0)


def test_a_bad_event_keeps_its_words_when_it_is_numbered_or_sent() -> None:
    found = BadEventError("pt of jet is negative in event", 3)
    assert str(found.numbered(np.array([10, 20, 30, 40]))) == "pt of jet is negative in event 40"
    assert str(pickle.loads(pickle.dumps(found))) == str(found) == "pt of jet is negative in event 3"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, np.nan, 1.0], "nan is not finite or negative in event 1"),
        ([1.0, 1.0, -0.5], "-0.5 is not finite or negative in event 2"),
        ([0.0, 0.0, 0.0], "all weights are zero"),
        ([1.0, 1.0], "3 events need as many weights"),
    ],
)
def test_weights_that_cannot_be_are_refused(events: Events, weights: list[float], message: str) -> None:
    with pytest.raises(EventContentError, match=message):
        Variation(events[:3], np.array(weights))


def test_a_mistake_in_a_users_function_is_one_sentence_with_its_line(events: Events) -> None:
    def divide(_: Events, amount: float) -> Events:
        raise ZeroDivisionError(f"by {amount}")

    with pytest.raises(CovadError) as failure:
        UserSystematic("bad", 1.0, divide).shift(events, 0.0)
    line = divide.__code__.co_firstlineno + 1
    assert (
        str(failure.value) == f"systematic 'bad' ended in ZeroDivisionError: by 0.0 ({__file__}, line {line})"
    )
    with pytest.raises(CovadError, match="'bad' ended in TypeError"):
        UserSystematic("bad", 1.0, lambda: None).shift(events, 0.0)  # type: ignore[arg-type, misc]


def test_a_lepton_filter_that_is_no_number_is_refused(events: Events) -> None:
    odd = Events(
        events.layout, events.particles, events.process, events.process_names, {"lepton_filter": "high"}
    )
    with pytest.raises(EventContentError, match="lepton_filter 'high', which is no number"):
        shift_events(odd, [JetEnergyScale()], [1.0])


def test_wrong_use_is_refused(events: Events) -> None:
    with pytest.raises(CovadError, match="as many values of nu"):
        shift_events(events, [JetEnergyScale()], [1.0, 2.0])
    with pytest.raises(EventContentError, match="no event passes"):
        _ = shift_events(events, [JetEnergyScale()], [1.0], Selection(trigger_minimum=1e6)).yield_ratio


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


MODULE = """
def half_met(events, amount):
    particles = events.particles.copy()
    particles[:, 0, 0] *= 1 + amount
    return events.with_particles(particles)
"""


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_is_made_by_its_name(name: str) -> None:
    assert make_systematic({"name": name}).name == name


def test_options_reach_the_systematic() -> None:
    made = make_systematic({"name": "jet_energy_scale", "sigma": 0.05, "propagate_to_met": True})
    assert made == JetEnergyScale(sigma=0.05, propagate_to_met=True)
    made = make_systematic({"name": "lepton_energy_scale", "collections": ["muon"]})
    assert made == LeptonEnergyScale(collections=("muon",))


def test_a_users_function_beside_the_study_file(tmp_path: Path, events: Events) -> None:
    (tmp_path / "users_met_scale.py").write_text(MODULE)
    mine = make_systematic({"name": "mine", "function": "users_met_scale:half_met", "sigma": 0.1}, tmp_path)
    assert mine.shift(events, -5.0).events.particles[0, 0, 0] == pytest.approx(12.5)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, "no name"),
        ({"name": "jes"}, "unknown systematic 'jes'"),
        ({"name": "jet_energy_scale", "sigm": 0.1}, "no option 'sigm'"),
        ({"name": "jet_energy_scale", "sigma": 0}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "sigma": "big"}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "sigma": float("inf")}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "sigma": True}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "propagate_to_met": "no"}, "propagate_to_met must be of type bool"),
        ({"name": "jet_energy_resolution", "seed": 1.5}, "seed must be of type int, not 1.5"),
        ({"name": "lepton_energy_scale", "collections": "muon"}, "collections must be of type list"),
        ({"name": "mine", "function": "nowhere", "sigma": 1}, "module:function"),
        ({"name": "mine", "function": "no_such_module:f", "sigma": 1}, "'no_such_module' cannot be imported"),
        ({"name": "mine", "function": "math:no_such", "sigma": 1}, "no function 'no_such'"),
        ({"name": "mine", "function": "math:exp"}, "exactly the keys"),
    ],
)
def test_mistakes_are_named(description: dict[str, object], message: str) -> None:
    with pytest.raises(CovadError, match=message):
        make_systematic(description)


def test_a_module_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken_module_of_user.py").write_text("raise RuntimeError('boom')")
    with pytest.raises(CovadError, match="'broken_module_of_user' cannot be imported: boom"):
        make_systematic({"name": "x", "function": "broken_module_of_user:f", "sigma": 1}, tmp_path)
    (tmp_path / "leaving_module_of_user.py").write_text("import sys\nsys.exit(0)")
    with pytest.raises(CovadError, match="'leaving_module_of_user' cannot be imported: it ends the program"):
        make_systematic({"name": "x", "function": "leaving_module_of_user:f", "sigma": 1}, tmp_path)


def test_modules_of_one_name_in_two_folders_are_two(tmp_path):
    """In a notebook two studies may each have a my_systematics.py."""
    found = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "one_of_two.py").write_text(f"def shift(events, amount):\n    return {number}\n")
        found.append(load_function("one_of_two:shift", folder))
    assert [function(None, 0.0) for function in found] == [1, 2]
