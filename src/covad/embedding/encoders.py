"""Encoders of every kind: made for events, and read from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from covad.embedding.encoder import Encoder
from covad.embedding.frame import EventFrame
from covad.embedding.mlp import Mlp
from covad.embedding.scaling import InputScaling
from covad.embedding.settings import EncoderSettings
from covad.embedding.transformer import Transformer
from covad.errors import CovadError, FileFormatError
from covad.events.layout import EventLayout, Events
from covad.storage.tensors import load_weights

_KINDS: dict[str, type[Encoder]] = {"transformer": Transformer, "mlp": Mlp}


def new_encoder(events: Events, settings: EncoderSettings) -> Encoder:
    """Return an encoder with random weights, whose inputs are scaled by these events."""
    if settings.frame == "event":
        framed = EventFrame.of(events.layout, settings.axis).of_arrays(events.particles)
        events = replace(events, particles=framed)
    # the paper's transformer, in the frame of the detector, is not told the numbers of objects
    counted = settings.kind == "mlp" or settings.frame == "event"
    return _KINDS[settings.kind](events.layout, InputScaling.fit(events, counted), settings)


def load_encoder(path: Path, layout: EventLayout | None = None) -> Encoder:
    """Read an encoder; with a layout, refuse one that was made for another."""
    tensors, stored = load_weights(path, "encoder")
    try:
        made_for = EventLayout.from_description(stored["layout"])
        numbers = tensors.pop("scaling.numbers", None)
        scaling = InputScaling(
            tensors.pop("scaling.centre").numpy(),
            tensors.pop("scaling.width").numpy(),
            None if numbers is None else numbers.numpy(),
        )
        settings = EncoderSettings(**stored["encoder"])
        encoder = _KINDS[settings.kind](made_for, scaling, settings)
        encoder.load_state_dict(tensors)
    except (KeyError, RuntimeError, TypeError, CovadError) as failure:
        raise FileFormatError(
            f"{path}: the stored encoder is incomplete ({failure}); delete it and run again"
        ) from failure
    if layout is not None and layout != made_for:
        raise FileFormatError(
            f"{path}: the encoder was trained for another event layout; delete it and run again"
        )
    return encoder
