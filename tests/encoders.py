"""Small encoders and trainings for tests."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from samples import random_events

from covad.embedding.batches import Sampler
from covad.embedding.cotrain import CoTraining
from covad.embedding.encoder import Encoder
from covad.embedding.encoders import new_encoder
from covad.embedding.settings import EncoderSettings, TrainingSettings
from covad.events.changes import CHANGES
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale

UNTRAINED = EncoderSettings(width=16, layers=2, heads=4, feed_forward=32, outputs=3, projector=8)


#: One of every kind, in both frames, of the same outputs.
UNTRAINED_KINDS = {
    "transformer": UNTRAINED,
    "transformer-event": UNTRAINED.changed(frame="event"),
    "mlp": EncoderSettings(kind="mlp", hidden=(16, 8), outputs=3, projector=8),
    "mlp-event": EncoderSettings(kind="mlp", hidden=(16, 8), outputs=3, projector=8, frame="event"),
}


def make_encoder(events: Events, seed: int = 0, settings: EncoderSettings = UNTRAINED) -> Encoder:
    torch.manual_seed(seed)
    encoder = new_encoder(events, settings)
    if settings.kind == "transformer":
        torch.nn.init.normal_(encoder.cls)
    return encoder


ENCODER = EncoderSettings(width=8, layers=1, heads=2, feed_forward=16, outputs=2, projector=8)
SETTINGS = TrainingSettings(
    steps=30, validate_every=10, validation_batches=2, warm_up=5, ratio_hidden=(8,), alpha=5.0, seed=3
)


def labelled(n_events: int, seed: int) -> Events:
    """At most three jets and one lepton; the label is whether there are jets: something to learn."""
    events = random_events(n_events, seed)
    particles = events.particles.copy()
    for name, most in (("electron", 1), ("muon", 0), ("jet", 3)):
        particles[:, events.layout.slots(name)][:, most:] = 0
    events = replace(events, particles=particles)
    return replace(events, process=(events.present("jet").sum(axis=1) > 1).astype(np.int16))


def make_training(folder: Path, encoder: EncoderSettings = ENCODER, **changes: object) -> CoTraining:
    settings = SETTINGS.changed(**changes)
    options = {"batch_size": 64, "changes": tuple(CHANGES) if "changes" in settings.kept else ()}
    sampler, validation = (
        Sampler(labelled(n_events, seed), (JetEnergyScale(),), Selection(), seed=seed, **options)
        for n_events, seed in ((1500, 1), (500, 2))
    )
    return CoTraining(sampler, validation, encoder, settings, folder)
