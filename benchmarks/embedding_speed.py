"""Speed of the encoder: trimmed against padded batches, and events embedded per second.

    python benchmarks/embedding_speed.py [--events 50000] [--sizes laptop|paper]

Both ways of batching run on the same events in one process, in turns, so that their ratio does not depend on
what else the machine does; times are CPU times of one thread. The encoder is untrained: speed does not
depend on its weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np
import torch
from torch.nn.functional import gelu, scaled_dot_product_attention

from covad.embedding.embed import BATCH, embed_family, encode
from covad.embedding.encoder import Encoder
from covad.embedding.encoders import new_encoder
from covad.embedding.settings import EncoderSettings
from covad.embedding.transformer import AttentionBlock
from covad.events.layout import Events, concatenate
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale, shift_events
from covad.simulation.simulate import Simulation

SIZES = {"laptop": EncoderSettings(), "paper": EncoderSettings.paper()}
POINTS = [(nu,) for nu in (0.0, -2.0, -1.0, 1.0, 2.0)]
ROUNDS = 3


@torch.no_grad()
def encode_padded(encoder: Encoder, particles: np.ndarray) -> np.ndarray:
    """z from batches with all slots of every event, empty ones masked."""
    parts = [_padded(encoder, particles[i : i + BATCH]) for i in range(0, len(particles), BATCH)]
    return torch.cat(parts).numpy()


def _padded(encoder: Encoder, particles: np.ndarray) -> torch.Tensor:
    objects = torch.from_numpy(particles)
    present = objects[..., 0] > 0
    kind = torch.from_numpy(encoder.layout.slot_collection).expand(len(particles), -1)
    filled = torch.where(present[..., None], objects, torch.ones(()))
    tokens = encoder.lift(encoder.scaling.inputs(filled, kind, encoder.layout)) + encoder.kinds(kind)
    x = torch.cat([encoder.cls.expand(len(tokens), 1, -1), tokens], dim=1)
    seen = torch.cat([torch.ones(len(tokens), 1, dtype=torch.bool), present], dim=1)
    *inner, last = encoder.blocks
    for block in inner:
        x = _masked(block, x, seen, x.shape[1])
    return encoder.out(encoder.norm(_masked(last, x, seen, 1)[:, 0]))


def _masked(block: AttentionBlock, x: torch.Tensor, seen: torch.Tensor, n_asked: int) -> torch.Tensor:
    normed = block.norm1(x)
    q, k, v = (
        part.unflatten(2, (block.heads, -1)).transpose(1, 2)
        for part in (block.query(normed[:, :n_asked]), *block.key_value(normed).chunk(2, dim=2))
    )
    mixed = scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None, :])
    x = x[:, :n_asked] + block.merge(mixed.transpose(1, 2).flatten(2))
    return x + block.narrow(gelu(block.widen(block.norm2(x))))


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def compare_batches(encoder: Encoder, events: Events) -> None:
    """Trimmed and padded in turns; the best round of each counts."""
    particles = shift_events(events, (), []).events.particles
    objects = (particles[..., 0] > 0).sum(axis=1)
    difference = np.abs(encode(encoder, particles) - encode_padded(encoder, particles)).max()
    times = [
        [seconds(lambda way=way: way(encoder, particles)) for way in (encode, encode_padded)]
        for _ in range(ROUNDS)
    ]
    trimmed, padded = (len(particles) / best for best in np.min(times, axis=0))
    click.echo(f"{objects.mean():.2f} objects per event, at most {objects.max()}, {particles.shape[1]} slots")
    click.echo(f"trimmed {trimmed:9,.0f} events per CPU second")
    click.echo(f"padded  {padded:9,.0f} events per CPU second")
    click.echo(f"ratio   {trimmed / padded:9.1f}; largest difference of z {difference:.1e}")


def measure_family(encoder: Encoder, events: Events) -> None:
    """Shift, select and encode at five nu, as the response split needs it."""
    scale = (JetEnergyScale(),)
    spent = seconds(lambda: embed_family(encoder, [events], scale, POINTS, Selection()))
    click.echo(
        f"shifted, selected and embedded at 5 nu: {len(POINTS) * len(events) / spent:,.0f} per CPU second"
    )


@click.command()
@click.option("--events", "n_events", default=50_000, show_default=True)
@click.option("--sizes", type=click.Choice(list(SIZES)), default="laptop", show_default=True)
def main(n_events: int, sizes: str) -> None:
    """Speed of the encoder."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    events = concatenate(list(Simulation("background", n_events, seed=1).blocks()))
    encoder = new_encoder(events, SIZES[sizes])
    compare_batches(encoder, events)
    measure_family(encoder, events)


if __name__ == "__main__":
    main()
