"""The frame of an event: rotations and mirrors of the whole event change nothing in it."""

import numpy as np
import pytest
import torch
from encoders import UNTRAINED_KINDS, make_encoder
from samples import random_events

from covad.embedding.frame import EventFrame
from covad.errors import UnknownNameError
from covad.events.layout import Collection, EventLayout, Events

PT, ETA, PHI = range(3)
OTHER = EventLayout(
    (
        Collection("track", 5, ("pt", "eta", "d0")),
        Collection("Muons", 2),
        Collection("jets", 3, ("pt", "phi")),
    )
)


def turned(events: Events, angle: float = 0.0, eta: int = 1, phi: int = 1) -> np.ndarray:
    """The events rotated, and mirrored where a sign is -1; objects without such a feature stay."""
    layout, particles = events.layout, events.particles.copy()
    there = particles[..., PT] > 0
    column = layout.column("phi")
    moved = there & layout.offered[:, column]
    particles[..., column][moved] = np.angle(np.exp(1j * (phi * particles[..., column][moved] + angle)))
    particles[..., layout.column("eta")] *= eta
    return particles


def slow_frame(event: np.ndarray) -> np.ndarray:
    """One event of the paper's layout, object by object."""
    leptons = [slot for slot in range(1, 9) if event[slot, PT] > 0]
    filled = [slot for slot in range(19) if event[slot, PT] > 0]
    if not filled:
        return event
    axis = max(leptons or filled, key=lambda slot: event[slot, PT])
    others = [slot for slot in filled if slot != axis]
    found = event.astype(np.float64)
    along = event[axis, ETA] or sum(event[slot, PT] * event[slot, ETA] for slot in filled)
    for slot in filled:
        found[slot, PHI] -= event[axis, PHI]
        found[slot, ETA] *= -1 if along < 0 else 1
    if others:
        mirror = 0 if 0 in others else max(others, key=lambda slot: event[slot, PT])
        if np.sin(found[mirror, PHI]) < 0:
            found[:, PHI] *= -1
    found[:, PHI] = np.angle(np.exp(1j * found[:, PHI]))
    return found


def test_the_frame_is_its_definition() -> None:
    events = random_events(300, seed=1)
    particles = events.particles.copy()
    particles[:100, 1:9] = 0  # without leptons
    particles[100:150, 0] = 0  # without missing momentum
    particles[7] = 0
    found = EventFrame.of(events.layout).of_arrays(particles)
    expected = np.stack([slow_frame(event) for event in particles])
    difference = np.abs(found - expected)
    difference[..., PHI] = np.abs(np.angle(np.exp(1j * (found - expected)[..., PHI])))
    assert difference.max() < 1e-5
    assert (found[particles[..., PT] == 0] == 0).all()


@pytest.mark.parametrize("kind", ["transformer-event", "mlp-event"])
@pytest.mark.parametrize("layout", ["paper", "other"])
@pytest.mark.parametrize(
    "move", [{"angle": 2.0}, {"eta": -1}, {"phi": -1}, {"angle": -1.0, "eta": -1, "phi": -1}]
)
@torch.no_grad()
def test_z_knows_no_rotation_and_no_mirror(kind: str, layout: str, move: dict[str, float]) -> None:
    events = random_events(200, seed=2) if layout == "paper" else random_events(200, 2, OTHER)
    encoder = make_encoder(events, settings=UNTRAINED_KINDS[kind])
    np.testing.assert_allclose(
        encoder.encode(turned(events, **move)), encoder.encode(events.particles), atol=1e-5
    )


@torch.no_grad()
def test_the_detector_frame_knows_them() -> None:
    events = random_events(50, seed=2)
    for kind in ("transformer", "mlp"):
        encoder = make_encoder(events, settings=UNTRAINED_KINDS[kind])
        assert np.abs(encoder.encode(turned(events, 2.0)) - encoder.encode(events.particles)).max() > 1e-3


def test_the_axis_is_chosen_by_name() -> None:
    assert EventFrame.of(OTHER).axis.tolist() == [False] * 5 + [True] * 2 + [False] * 3
    assert EventFrame.of(OTHER, ["jets"]).axis.tolist() == [False] * 7 + [True] * 3
    plain = EventLayout((Collection("met", 1), Collection("photon", 2)))
    assert EventFrame.of(plain).axis.tolist() == [False, True, True]
    assert EventFrame.of(plain).mirror.tolist() == [True, False, False]
    with pytest.raises(UnknownNameError, match="no collection 'jet'"):
        EventFrame.of(plain, ["jet"])
    with pytest.raises(UnknownNameError, match="'track' has no phi"):
        EventFrame.of(OTHER, ["track"])


def test_layouts_without_angles_stay_as_they_are() -> None:
    layout = EventLayout((Collection("tower", 4, ("energy", "depth")),))
    events = random_events(20, 1, layout)
    assert (EventFrame.of(layout).of_arrays(events.particles) == events.particles).all()
