"""Observables of events: by hand, for every event, and what a function of the user must not do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from samples import random_events

from covad.errors import CovadError, UnknownNameError
from covad.events.layout import Collection, EventLayout, Events
from covad.events.observables import BUILT_IN, Observables
from covad.events.processes import ADC2021_LAYOUT
from covad.events.systematics import BadEventError


def one_event() -> np.ndarray:
    """MET of 40 GeV, an electron of 30 and a muon of 20 back to back, and jets of 60 and 50 GeV."""
    particles = np.zeros((1, *ADC2021_LAYOUT.shape), np.float32)
    objects = {"met": [(40, 0, 0)], "electron": [(30, 0, np.pi / 2)], "muon": [(20, 0, -np.pi / 2)]}
    objects["jet"] = [(60, 1, np.pi), (50, -1, 2)]
    for name, found in objects.items():
        particles[0, ADC2021_LAYOUT.slots(name)][: len(found)] = found
    return particles


def test_one_event_by_hand() -> None:
    expected = {
        "met": 40.0,
        "log_met": np.log(41.0),
        "ht": 110.0,
        "st": 200.0,
        "mt": np.sqrt(2 * 30 * 40),
        "m_leptons": np.sqrt(4 * 30 * 20),
        "m_jets": np.sqrt(2 * 60 * 50 * (np.cosh(2) - np.cos(np.pi - 2))),
        "n_jets": 2.0,
        "n_leptons": 2.0,
        "n_muons": 1.0,
        "lead_jet_pt": 60.0,
        "lead_lepton_pt": 30.0,
        "dphi_lepton_met": np.pi / 2,
        "dphi_jet_met": np.pi,
        "dphi_lepton_jet": np.pi / 2,
        "lead_lepton_abs_eta": 0.0,
    }
    found = Observables(tuple(expected))(ADC2021_LAYOUT, one_event())
    np.testing.assert_allclose(found[0], list(expected.values()), rtol=1e-5)


def test_every_built_in_observable_is_finite_and_a_function_of_the_event_alone() -> None:
    """Also of an event without any object."""
    particles = random_events(500, 1).particles.copy()
    particles[7] = 0.0
    observables = Observables(tuple(BUILT_IN))
    found = observables.check(ADC2021_LAYOUT, particles)
    assert found.shape == (500, len(BUILT_IN))
    assert np.isfinite(found).all()
    assert not found[7].any()


def test_what_events_do_not_have_is_named() -> None:
    layout = EventLayout((Collection("photon", 2),))
    particles = np.ones((3, *layout.shape), np.float32)
    for name, what in (("ht", "no collection 'jet'"), ("mt", "no leptons")):
        with pytest.raises(UnknownNameError, match=rf"^source\.spaces\.plain: .*{what}.*photon"):
            Observables((name,), where="source.spaces.plain")(layout, particles)
    with pytest.raises(UnknownNameError, match=r"^here: there is no observable 'h_t' \(there are met"):
        Observables.make(["h_t"], None, None, "here")


def _columns(events: Events) -> dict[str, Any]:
    pt = events.particles[..., 0]
    return {"total": pt.sum(axis=1), "unused": np.zeros(3), "largest": pt.max(axis=1)}


def _array(events: Events) -> Any:
    found = _columns(events)
    return np.column_stack([found["total"], found["largest"]])


def test_a_function_returns_columns_by_name_or_in_order() -> None:
    events = random_events(50, 2)
    by_name, in_order = (
        Observables(("total", "largest"), function)(events.layout, events.particles)
        for function in (_columns, _array)
    )
    np.testing.assert_array_equal(by_name, in_order)
    np.testing.assert_allclose(by_name[:, 0], events.particles[..., 0].sum(axis=1), rtol=1e-6)


def test_a_function_sees_neither_labels_nor_weights() -> None:
    def labels(events: Events) -> Any:
        assert events.weights is None
        return events.process[:, None]

    events = random_events(50, 2)
    assert (Observables(("label",), labels)(events.layout, events.particles) == -1).all()


def _nan(events: Events) -> Any:
    return np.where(np.arange(len(events)) == 5, np.nan, 1.0)[:, None]


def _fails(events: Events) -> Any:
    return events.objects("jet")[:, 99]


def _writes(events: Events) -> Any:
    events.particles[0] = 0
    return np.zeros((len(events), 1))


BAD: list[tuple[Callable[[Events], Any], str]] = [
    (_nan, r"^mine: observable 'a' is nan in event 5$"),
    (_fails, r"^mine: the function ended in IndexError: .* \(.*test_observables.py, line \d+\)"),
    (_writes, r"^mine: the function changes the events that it was given"),
    (lambda events: np.zeros((len(events), 2)), r"must return a mapping of columns, or an array of shape"),
    (lambda events: np.zeros(len(events)), r"\(events, 1\), one column for each name, not one of shape"),
    (lambda _: {"b": 1}, r"returned no column 'a' \(it returned b\)"),
    (lambda events: {"a": np.zeros(len(events) - 1)}, r"one number per event for 'a', 40 in all"),
    (lambda events: {"a": np.full(len(events), "x")}, r"one number per event for 'a'"),
    (lambda _: None, r"not NoneType"),
    (
        lambda _: {"a": [[1.0, 2.0], [3.0]]},
        r"^mine: the function, for 'a', returned what is no array of numbers",
    ),
    (
        lambda events: {"a": np.ma.masked_less(np.arange(len(events)), 3)},
        r"^mine: the function, for 'a', returned a masked array, whose masked values are no numbers",
    ),
    (lambda events: pd.DataFrame({"b": np.zeros(len(events))}), r"returned no column 'a' \(it returned b\)"),
]


@pytest.mark.parametrize(("function", "sentence"), BAD)
def test_what_is_wrong_with_a_function_is_one_sentence(
    function: Callable[[Events], Any], sentence: str
) -> None:
    events = random_events(40, 3)
    with pytest.raises(CovadError, match=sentence):
        Observables(("a",), function, "mine")(events.layout, events.particles)


DEPENDENT: list[Callable[[Events], Any]] = [
    lambda events: np.arange(len(events))[:, None],
    lambda events: events.particles[:, :1, 0] - events.particles[..., 0].mean(),
    lambda events: np.random.default_rng(1).normal(size=(len(events), 1)),
    lambda events: np.cumsum(events.particles[:, :1, 0], axis=0),
    lambda events: np.random.default_rng().normal(size=(len(events), 1)) + 1e30 * _first(events),
]


def _electron(events: Events) -> NDArray[np.float32]:
    """Return the pt of the leading electron, one column."""
    return events.particles[:, 1:2, 0]


def _first(events: Events) -> NDArray[np.bool_]:
    """Mark the event of the hardest electron."""
    return _electron(events) == _electron(events).max()


@pytest.mark.parametrize("seed", range(16))
def test_what_one_event_decides_for_all_others_is_found(seed: int) -> None:
    """Half of the events may have the largest one, and the other half has not."""
    events = random_events(400, seed)
    largest = Observables(("a",), lambda e: _electron(e) / _electron(e).max(), "mine")
    with pytest.raises(BadEventError, match=r"observable 'a' depends on the other events or on their order"):
        largest.check(events.layout, events.particles)


def test_a_data_frame_is_read_by_its_names() -> None:
    events = random_events(40, 3)
    numbers = np.arange(40.0)
    swapped = Observables(("a", "b"), lambda _: pd.DataFrame({"b": -numbers, "a": numbers}), "mine")
    assert np.array_equal(swapped(events.layout, events.particles), np.stack([numbers, -numbers], axis=1))


def test_rounding_and_rare_large_values_are_no_dependence() -> None:
    events = random_events(400, 4)

    def rounded(given: Events) -> Any:
        value = np.where(_electron(given) > 60, -999.0, _electron(given))
        return value * (1 + 1e-7 * len(given))

    Observables(("a",), rounded, "mine").check(events.layout, events.particles)


@pytest.mark.parametrize("function", DEPENDENT)
def test_dependence_on_other_events_or_their_order_is_found(function: Callable[[Events], Any]) -> None:
    events = random_events(400, 4)
    with pytest.raises(BadEventError, match=r"observable 'a' depends on the other events or on their order"):
        Observables(("a",), function, "mine").check(events.layout, events.particles)
