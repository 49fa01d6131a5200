"""Functions that are no systematics are refused, and those that are pass."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import random_events

from covad.errors import CovadError
from covad.events.layout import Collection, EventLayout, Events
from covad.events.soundness import _check_jump, check_ratios, check_soundness
from covad.events.systematics import BUILT_IN, Systematic, UserSystematic, UserWeights, make_systematic
from covad.events.users_code import load_function
from covad.simulation.simulate import Simulation

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_events"
Function = Callable[[Events, float], Events]


def scaled(events: Events, factor: float) -> Events:
    """Jets with another pt; the rest stays."""
    particles = events.particles.copy()
    particles[:, events.layout.slots("jet"), 0] *= np.float32(factor)
    return events.with_particles(particles)


def offset(events: Events, amount: float) -> Events:
    return scaled(events, 1.01 + amount)


def jump(events: Events, amount: float) -> Events:
    return scaled(events, 1 + amount + 0.3 * 0.02 * np.sign(amount))


def jump_up(events: Events, amount: float) -> Events:
    return scaled(events, 1.02 if amount > 0 else 1.0)


def reorder(events: Events, amount: float) -> Events:
    moved = scaled(events, 1 + amount)
    return moved if amount == 0 else moved.with_particles(moved.particles[::-1])


def noise(events: Events, amount: float) -> Events:
    return scaled(events, 1 + amount * np.random.default_rng().normal(1, 0.1))


def forget(events: Events, amount: float) -> Events:
    particles = scaled(events, 1 + amount).particles.copy()
    if amount:
        particles[17] = 0
    return events.with_particles(particles)


def count_calls(events: Events, amount: float) -> Events:
    _CALLS.append(amount)
    return scaled(events, 1 + amount * len(_CALLS))


_CALLS: list[float] = []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (offset, "must change nothing at the amount 0, but changes pt of jet of event 0"),
        (jump, ".*moves pt of jet by .* standard deviations.*above 0.*: does it jump"),
        (jump_up, ".*moves pt of jet by .* standard deviations.*above 0"),
        (reorder, ".*does it jump, or change the order of the events"),
        (noise, "must give the same answer whenever it is asked, but .* event 0"),
        (count_calls, "must give the same answer whenever it is asked"),
        (forget, "leaves no object, at small amounts of either sign, in event 17"),
    ],
)
def test_what_is_no_systematic_is_refused(events: Events, function: Function, message: str) -> None:
    events = events[np.argsort(~events.present("jet")[:, 0], kind="stable")]  # the first events have jets
    with pytest.raises(CovadError, match=f"'mine' {message}"):
        check_soundness(UserSystematic("mine", 0.02, function), events)


def root(events: Events, amount: float) -> Events:
    return scaled(events, 1 + 0.1 * np.sqrt(abs(amount)) * np.sign(amount))


def crossing(events: Events, amount: float) -> Events:
    """The analysis has a jet threshold of its own, which a scale moves jets across."""
    nominal = events.objects("jet")[..., 0] >= 12
    moved = scaled(events, 1 + amount)
    lost = nominal & (moved.objects("jet")[..., 0] < 12)
    particles = moved.particles.copy()
    particles[:, events.layout.slots("jet")][lost] = 0
    return events.with_particles(particles)


def efficiency(events: Events, amount: float) -> Events:
    """One jet in a hundred is lost for one sigma of a percent, by a number that belongs to the jet."""
    particles = events.particles.copy()
    jets = particles[:, events.layout.slots("jet")]
    jets[np.modf(np.abs(jets[..., 1]) * 1e3)[0] < amount] = 0
    return events.with_particles(particles)


def _samples() -> list[Events]:
    return [
        next(iter(Simulation("background", 4000, 0).blocks())),
        next(iter(Simulation("a4l", 500, 1).blocks())),
        random_events(2000, seed=3),
    ]


def test_sound_functions_pass_on_every_sample(caplog: pytest.LogCaptureFixture) -> None:
    sound: list[Systematic] = [make_systematic({"name": name}) for name in BUILT_IN]
    sound.append(make_systematic({"name": "jet_energy_scale", "propagate_to_met": True}))
    sound += [UserSystematic(f.__name__, 0.01, f) for f in (root, crossing, efficiency)]
    for events in _samples():
        for systematic in sound:
            if systematic.name == "jet_energy_resolution":  # its nominal sample is smeared already
                for sign in (1.0, -1.0):
                    _check_jump(systematic, events, systematic.shift(events, 0.0).events, sign)
            else:
                check_soundness(systematic, events)
    assert not caplog.messages


def test_the_rounding_of_a_feature_that_hardly_varies_is_no_change() -> None:
    layout = EventLayout((Collection("muon", 2, ("pt", "mass")),))
    events = random_events(500, seed=1, layout=layout)
    events.particles[..., 1] = np.where(events.particles[..., 0] > 0, np.float32(0.10566), 0)
    events.particles[:250, 0, 1] *= np.float32(1 - 1e-7)  # the last digit is noise

    def by_energy(given: Events, amount: float) -> Events:
        """Scale pt, and take the mass through another form and back."""
        particles = given.particles.copy()
        particles[..., 0] *= np.float32(1 + amount)
        particles[..., 1] = np.sqrt((particles[..., 1] + np.float32(7.3)) ** 2) - np.float32(7.3)
        particles[..., 1][particles[..., 0] == 0] = 0
        return given.with_particles(particles)

    assert (by_energy(events, 0.0).particles != events.particles).any()
    check_soundness(UserSystematic("mine", 0.02, by_energy), events)


def test_the_example_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from make_events import LAYOUT

    events = random_events(3000, seed=1, layout=LAYOUT)
    check_soundness(UserSystematic("x", 0.02, load_function("my_systematics:photon_scale", EXAMPLE)), events)
    for name in ("make_events", "my_systematics"):
        sys.modules.pop(name, None)


def test_an_answer_that_depends_on_the_other_events_is_warned_of(
    events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    def towards_the_mean(given: Events, amount: float) -> Events:
        return scaled(given, 1 + amount * float(given.objects("jet")[: len(given) // 2, 0, 0].mean()))

    check_soundness(UserSystematic("mine", 0.02, towards_the_mean), events)
    assert "'mine': what becomes of an event depends on the events around it" in caplog.text
    caplog.clear()
    check_soundness(UserSystematic("mine", 0.02, lambda e, a: scaled(e, 1 + a)), events)
    assert not caplog.messages


def test_random_numbers_in_the_order_of_the_events_are_warned_of(
    events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    """A fixed seed gives every piece of a file the same numbers again."""

    def weigh(given: Events, amount: float) -> NDArray[np.float64]:
        return 1.0 + amount * np.random.default_rng(1).uniform(size=len(given))

    check_ratios(UserWeights("mine", 0.02, weigh), events)
    assert "'mine': what becomes of an event depends on the events around it" in caplog.text
    caplog.clear()

    def shift(given: Events, amount: float) -> Events:
        particles, numbers = given.particles.copy(), np.random.default_rng(1).uniform(size=(len(given), 1))
        particles[:, given.layout.slots("jet"), 0] *= np.exp(amount * numbers).astype(np.float32)
        return given.with_particles(particles)

    check_soundness(UserSystematic("other", 0.02, shift), events)
    assert "'other': what becomes of an event depends on the events around it" in caplog.text
