import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from samples import random_events, weighted_events

from covad.errors import CovadError, EventContentError
from covad.events.layout import Collection, EventLayout, Events
from covad.events.selection import NO_CUTS
from covad.events.systematics import (
    BadEventError,
    UserSystematic,
    shift_events,
)


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
        (lambda *_: sys.exit(0), r"ended in SystemExit: 0 \(.*test_users.py, line"),
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
