"""Speed of stage 1: training steps per second of every kind of encoder.

    python benchmarks/training_speed.py [--steps 30] [--batch 512]

All kinds train on the same events in one process, in turns, so that their ratios do not depend on what else
the machine does; times are CPU times of one thread, batches and their shifts included. The best round counts.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click
import numpy as np
import torch

from covad.embedding.batches import Sampler
from covad.embedding.cotrain import CoTraining
from covad.embedding.settings import EncoderSettings, TrainingSettings
from covad.events.layout import concatenate
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale
from covad.simulation.simulate import Simulation

KINDS = {
    "transformer, detector frame": EncoderSettings(),
    "transformer, event frame": EncoderSettings(frame="event"),
    "mlp, event frame": EncoderSettings(kind="mlp", frame="event"),
}
OBJECTIVES = {
    "alpha = 0": {"alpha": 0.0},
    "alpha = 30": {"alpha": 30.0},
    "alpha = 0, keep observables": {"alpha": 0.0, "beta": 1.0, "keep": "observables"},
    "alpha = 0, keep inputs": {"alpha": 0.0, "beta": 1.0, "keep": "inputs"},
    "alpha = 0, keep variance": {"alpha": 0.0, "beta": 1.0, "keep": "variance"},
}
ROUNDS = 3


@click.command()
@click.option("--steps", default=30, show_default=True)
@click.option("--batch", default=512, show_default=True)
def main(steps: int, batch: int) -> None:
    """Speed of the training."""
    torch.set_num_threads(1)
    events = concatenate(list(Simulation("background", 20_000, seed=1).blocks()))
    sampler = Sampler(events, (JetEnergyScale(),), Selection(), batch, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        trainings = {
            (kind, objective): CoTraining(
                sampler,
                sampler,
                settings,
                TrainingSettings(steps=10**6, validate_every=10**6, device="cpu", **weights),
                Path(folder),
            )
            for objective, weights in OBJECTIVES.items()
            for kind, settings in KINDS.items()
        }
        spent = np.full((ROUNDS, len(trainings)), np.inf)
        for turn in range(ROUNDS):
            for number, training in enumerate(trainings.values()):
                began = time.process_time()
                training.run(until=training.step + steps)
                spent[turn, number] = time.process_time() - began
    for (kind, objective), seconds in zip(trainings, spent.min(axis=0), strict=True):
        click.echo(f"{objective:28} {kind:28} {steps / seconds:6.1f} steps per CPU second")


if __name__ == "__main__":
    main()
