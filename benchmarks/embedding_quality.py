"""Quality of the laptop recipe on the embedded simulator: what is learned, and what fresh events say of it.

    python benchmarks/embedding_quality.py train FOLDER contrastive      # two shells: one core each
    python benchmarks/embedding_quality.py train FOLDER covariant
    python benchmarks/embedding_quality.py measure FOLDER contrastive
    python benchmarks/embedding_quality.py measure FOLDER covariant
    python benchmarks/embedding_quality.py summary FOLDER

Every step goes on where it was stopped, and what is there is not made again. Both embeddings are trained on
the same events and with the same batches; only alpha differs. Events of every role have a seed of their own,
fixed before anything was measured. Recipes are compared on the `selection` events (measure --on selection);
the `fresh` ones are for the recipe that was chosen.
"""

from __future__ import annotations

import json
import resource
import time
from dataclasses import asdict
from pathlib import Path

import click
import torch
from embedding_measures import (
    POOL,
    SELECTION,
    SYSTEMATICS,
    agreement,
    embed_grid,
    linearity_summary,
    probe,
    reach,
)

from covad.embedding.batches import Sampler
from covad.embedding.cotrain import CoTraining
from covad.embedding.encoder import Encoder
from covad.embedding.encoders import load_encoder
from covad.embedding.metrics import Metrics
from covad.embedding.settings import EncoderSettings, TrainingSettings
from covad.events.layout import Events, concatenate
from covad.response.fit import fit_response
from covad.response.model import ResponseModel, ResponseShape
from covad.response.settings import FitSettings
from covad.simulation.simulate import Simulation
from covad.storage.atomic import write_bytes
from covad.storage.digests import file_digest

ALPHA = {"contrastive": 0.0, "covariant": TrainingSettings().alpha}
ORDERS = {"linear": 1, "quadratic": 2}
EVENTS = {"training": 1_000_000, "validation": 100_000, "response": 1_000_000}
EVENTS |= {"selection": 500_000, "fresh": 1_000_000}
SEEDS = {
    "training": 101,
    "validation": 102,
    "response": 103,
    "selection": 104,
    "features": 105,
    "fresh": 9001,
}
BATCH, VALIDATION_BATCH = 512, 1024


def simulated(role: str, n_events: int) -> Events:
    return concatenate(list(Simulation("background", n_events, seed=SEEDS[role]).blocks()))


def provenance(role: str) -> dict[str, int]:
    return {"events": EVENTS[role], "seed": SEEDS[role]}


class Costs:
    """CPU and wall seconds per step of one embedding, added up over interruptions, and the peak memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
        self.began = time.process_time(), time.monotonic()

    def add(self, step: str) -> None:
        now = time.process_time(), time.monotonic()
        before = self.seconds.get(step, {"cpu": 0.0, "wall": 0.0})
        self.seconds[step] = {
            "cpu": before["cpu"] + now[0] - self.began[0],
            "wall": before["wall"] + now[1] - self.began[1],
            "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        }
        self.began = now
        write_bytes(self.path, json.dumps(self.seconds, indent=1).encode())


def train_encoder(folder: Path, embedding: str, costs: Costs) -> Encoder:
    """Stage 1, from the last checkpoint if there is one."""
    path = folder / "encoder.safetensors"
    if path.exists():
        return load_encoder(path)
    samplers = [
        Sampler(simulated(role, EVENTS[role]), SYSTEMATICS, SELECTION, size, seed)
        for role, size, seed in (("training", BATCH, 1), ("validation", VALIDATION_BATCH, 2))
    ]
    costs.add("simulation")

    def progress(metrics: Metrics, steps: int) -> None:
        costs.add("encoder")
        click.echo(
            f"step {metrics.step} of {steps}: "
            f"L_supCL {metrics.contrastive:.4f}, L_cov {metrics.covariance:.6f}"
        )

    settings = TrainingSettings(alpha=ALPHA[embedding])
    encoder = CoTraining(*samplers, EncoderSettings(), settings, folder).run(progress)
    encoder.save(path, provenance("training") | {"settings": asdict(settings)})
    return encoder


def fit_responses(folder: Path, encoder: Encoder, costs: Costs) -> None:
    """Stage 2a, linear and quadratic, on one embedded sample."""
    missing = {name: order for name, order in ORDERS.items() if not (folder / f"{name}.safetensors").exists()}
    if not missing:
        return
    pairs = embed_grid(encoder, simulated("response", EVENTS["response"]))
    costs.add("response events")
    for name, order in missing.items():
        shape = ResponseShape(encoder.settings.outputs, len(SYSTEMATICS), order)
        found = fit_response(pairs, shape, FitSettings())
        trained_on = provenance("response") | {"encoder": file_digest(folder / "encoder.safetensors")}
        found.model.save(folder / f"{name}.safetensors", trained_on | {"losses": found.losses})
        costs.add(f"{name} response")
        click.echo(f"{name} response: loss {found.losses}")


@click.group()
def main() -> None:
    """Quality of the laptop recipe."""
    torch.set_num_threads(1)


EMBEDDING = click.argument("embedding", type=click.Choice(list(ALPHA)))
FOLDER = click.argument("folder", type=click.Path(path_type=Path))


@main.command()
@FOLDER
@EMBEDDING
def train(folder: Path, embedding: str) -> None:
    """Train one embedding and both of its responses."""
    place = folder / embedding
    place.mkdir(parents=True, exist_ok=True)
    costs = Costs(place / "costs.json")
    fit_responses(place, train_encoder(place, embedding, costs), costs)


@main.command()
@FOLDER
@EMBEDDING
@click.option("--on", "role", type=click.Choice(["fresh", "selection"]), default="fresh", show_default=True)
def measure(folder: Path, embedding: str, role: str) -> None:
    """Probe, linearity, agreement and reach on events that were not trained on."""
    place = folder / embedding
    path = place / f"{role}.json"
    if path.exists():
        return
    encoder = load_encoder(place / "encoder.safetensors")
    pool = embed_grid(encoder, simulated("features", POOL), grid=(1.0,)).nominal
    events = simulated(role, EVENTS[role])
    pairs = embed_grid(encoder, events)
    results = {"probe": probe(pairs, events.process), "linearity": linearity_summary(pairs)}
    for name in ORDERS:
        model = ResponseModel.load(place / f"{name}.safetensors")
        reaches = {f"{nu:+g}": reach(model, pairs, nu, pool) for nu in (1.0, -1.0)}
        results[name] = {"agreement": agreement(model, pairs), "reach": reaches}
    write_bytes(path, json.dumps(results, indent=1).encode())


@main.command()
@FOLDER
@click.option("--on", "role", type=click.Choice(["fresh", "selection"]), default="fresh", show_default=True)
def summary(folder: Path, role: str) -> None:
    """The figures of docs/explanation/embedding.md."""
    for embedding in ALPHA:
        results = json.loads((folder / embedding / f"{role}.json").read_text())
        costs = json.loads((folder / embedding / "costs.json").read_text())
        click.echo(f"{embedding}")
        _print_costs(costs)
        p = results["probe"]
        click.echo(
            f"  probe {p['accuracy']:.4f} +- {p['accuracy_uncertainty']:.4f}, "
            f"balanced {p['balanced_accuracy']:.4f}, majority {p['majority']:.4f}"
        )
        _print_linearity(results["linearity"])
        for name in ORDERS:
            _print_response(name, results[name])


def _print_costs(costs: dict[str, dict[str, float]]) -> None:
    steps = ", ".join(f"{name} {spent['cpu']:.0f} s" for name, spent in costs.items())
    cpu, wall = (sum(spent[kind] for spent in costs.values()) / 60 for kind in ("cpu", "wall"))
    peak = max(spent["peak_gb"] for spent in costs.values())
    click.echo(f"  {steps}; {cpu:.1f} min of CPU, {wall:.1f} min of wall time, peak {peak:.2f} GB")


def _print_linearity(linearity: dict[str, list[dict]]) -> None:
    for name, sizes in linearity.items():
        for at in sizes:
            low, high = at["interval"]
            click.echo(
                f"  {name}, {at['size']:g} sigma: effect {at['effect']:.4f}, departure {at['relative']:+.3f} "
                f"of it [{low:.3f}, {high:.3f}]"
            )


def _print_response(name: str, results: dict[str, dict]) -> None:
    for nu, at in results["reach"].items():
        cells = results["agreement"][nu]
        ends = [f"{at[key]:,.0f}" if at[key] else "infinite" for key in ("events", "low", "high")]
        click.echo(
            f"  {name} response, nu = {nu}: reach {ends[0]} [{ends[1]}, {ends[2]}], chi2 in cells "
            f"{cells['chi2']:.0f} / {cells['dof']}, residual {cells['residual']:.3f}"
        )


if __name__ == "__main__":
    main()
