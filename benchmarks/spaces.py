"""Which space sees most of what nobody trained for: processes left out in turn, without any signal.

    python benchmarks/spaces.py FOLDER --seeds 3        # train and judge; goes on where it was stopped
    python benchmarks/spaces.py FOLDER --summary        # the table of docs/explanation/which-space.md
    python benchmarks/spaces.py FOLDER --changed --seeds 3              # changed events instead
    python benchmarks/spaces.py FOLDER --changed --summary
    python benchmarks/spaces.py FOLDER --toys 20 --setting NAME ...     # toys beside the formula
    python benchmarks/spaces.py FOLDER --toys 20 --summary
    python benchmarks/spaces.py FOLDER --record         # last of all: the paper's signals, for the record
    python benchmarks/spaces.py FOLDER --record --summary

A process (ttbar, z) is left out of the background: of the training, of the bumps and of the reference. It
then comes on top of 10 000 expected events, as 0.1 to 2 % of them. The median Z and the power at Z = 2
are those of the adaptive test in second order (`AdaptivePower`), with 52 000 reference events and a yield
known to 10 %. No other nuisance is profiled: this ranks spaces, it makes no claim about a search. The seed is
that of the training, its batches, and the bumps. The space of the largest mean Z at 1 % is chosen. Where a
process is alone in its corner of the space, that Z is far beyond what the formula is good for. So the table
also has the share of the process at which the median Z is 3.

`--changed` has more anomalies than two: events of the four processes whose objects were changed, by each of
the changes of `covad.events.changes`. Spaces that learn from changed events (keep: changes) know half of the
changes, and are judged by the other half; then the other way round. The space with the smallest share for
Z = 3, the geometric mean over processes and changes, is chosen.

`--record` trains all spaces again, on the whole background, and takes the paper's signals at 1 %. Nothing is
chosen by it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri_exp

from covad.embedding.batches import Sampler
from covad.embedding.cotrain import CoTraining
from covad.embedding.embed import encode
from covad.embedding.encoders import load_encoder
from covad.embedding.settings import EncoderSettings, TrainingSettings
from covad.embedding.spaces import JoinedSpace, ObservableSpace, SpaceMap
from covad.events.changes import CHANGES, change_events
from covad.events.layout import Events, concatenate
from covad.events.observables import Observables
from covad.events.processes import ADC2021_LAYOUT, BACKGROUND, PROCESS_NAMES, process_code
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale
from covad.inference.expected_power import AdaptivePower
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import choose_members
from covad.nplm.adaptive.shared import ReferenceSample, SharedMoments
from covad.nplm.dataset import Dataset, Float32, Float64, Normalisation, Response
from covad.nplm.settings import AdaptiveSettings, Parts, Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.simulation.simulate import Simulation
from covad.storage.atomic import write_bytes

#: Events of the mix by role, before the cuts; no event has two roles.
EVENTS = {"training": 400_000, "validation": 40_000, "basis": 50_000, "moments": 110_000, "data": 60_000}
SEEDS = {
    "training": 201,
    "validation": 202,
    "basis": 203,
    "moments": 204,
    "anomaly": 205,
    "data": 206,
    "change": 207,
}
#: Events of each process that is injected, before the cuts.
ANOMALY_EVENTS = 30_000
LEFT_OUT, SHARES = ("ttbar", "z"), (0.001, 0.002, 0.005, 0.01, 0.02)
#: The last so many shares are those of `covad tune-power`; the first ones are there for EVIDENCE, a median Z.
N_STRONG, EVIDENCE = 3, 3.0
SIGNALS, SIGNAL_SHARES = ("lq", "a4l", "h0", "hpm"), (0.01,)
#: The share and the Z by which spaces are chosen and powers are taken.
CHOSEN_BY, ALARM_Z = 0.01, 2.0
SIZES, YIELD = Sizes(), Normalisation(0.1)
STEPS, LONG, BATCH, VALIDATION_BATCH = 1000, 3000, 512, 1024
#: The mix with nothing left out, for changed events and for the record.
WHOLE = "nothing"
#: Processes whose events are changed, and the changes in halves: who knows one half is judged by the other.
CHANGED = ("w", "qcd", "z", "ttbar")
HALVES = {
    "first half": ("harder", "more_leptons", "invisible_jet", "turned_met"),
    "second half": ("overlaid", "more_jets", "jet_as_lepton", "larger_met"),
}

Keep = str | tuple[str, ...]
PLAIN = ("log_met", "ht", "st", "mt", "m_leptons", "n_jets", "n_leptons")


@dataclass(frozen=True)
class Learned:
    """An encoder with its objective; alpha is 0."""

    kind: str = "mlp"
    frame: str = "event"
    outputs: int = 4
    objective: Mapping[str, Any] = field(default_factory=dict)
    with_plain: bool = False  # joined with the observables
    by_parts: bool = False  # and looked at part by part, as a study does
    steps: int = STEPS

    @property
    def encoder(self) -> EncoderSettings:
        return EncoderSettings(kind=self.kind, frame=self.frame, outputs=self.outputs)

    def training(self, seed: int) -> TrainingSettings:
        options = {"alpha": 0.0, "steps": self.steps, "validate_every": 250, "device": "cpu"}
        return TrainingSettings(**options, seed=seed, **self.objective)

    @property
    def knows_changes(self) -> bool:
        return "changes" in self.training(0).kept


def by_parts(setting: Learned | None) -> bool:
    return setting is not None and setting.by_parts


BOTH = ("observables", "changes")


def _weights(keep: Keep, beta: float, contrast: float = 1.0) -> dict[str, Any]:
    return {"keep": keep, "beta": beta, "contrast": contrast}


def _mixed(keep: Keep, beta: float, outputs: int = 4, contrast: float = 1.0) -> Learned:
    return Learned(outputs=outputs, objective=_weights(keep, beta, contrast))


def _transformer(keep: Keep, beta: float, outputs: int = 4, contrast: float = 1.0) -> Learned:
    return replace(_mixed(keep, beta, outputs, contrast), kind="transformer")


UNUSUAL = _transformer(BOTH, 2.0, contrast=0.0)

SETTINGS: dict[str, Learned | None] = {
    "seven observables": None,
    "contrastive, transformer, detector": Learned("transformer", "detector"),
    "contrastive, transformer, event": Learned("transformer", "event"),
    "contrastive, mlp, detector": Learned("mlp", "detector"),
    "contrastive, mlp, event": Learned(),
    "contrastive, mlp, event + observables": Learned(with_plain=True),
    "keep observables, beta 1": _mixed("observables", 1.0),
    "keep observables, beta 10": _mixed("observables", 10.0),
    "keep inputs, beta 1": _mixed("inputs", 1.0),
    "keep inputs, beta 10": _mixed("inputs", 10.0),
    "keep variance, beta 1": _mixed("variance", 1.0),
    "keep variance, beta 10": _mixed("variance", 10.0),
    "no labels, keep observables": _mixed("observables", 1.0, contrast=0.0),
    "no labels, keep inputs": _mixed("inputs", 1.0, contrast=0.0),
    "keep observables, beta 1, transformer": _transformer("observables", 1.0),
    "keep observables, beta 10, transformer": _transformer("observables", 10.0),
    "6-D keep observables, beta 1, transformer": _transformer("observables", 1.0, 6),
    "no labels, keep observables, transformer": _transformer("observables", 1.0, contrast=0.0),
    "keep changes, transformer": _transformer("changes", 1.0),
    "keep both, transformer": _transformer(BOTH, 2.0),
    "no labels, keep changes, transformer": _transformer("changes", 1.0, contrast=0.0),
    "no labels, keep both, transformer": UNUSUAL,
    "6-D no labels, keep both, transformer": _transformer(BOTH, 2.0, 6, 0.0),
    "no labels, keep both": _mixed(BOTH, 2.0, contrast=0.0),
    "no labels, keep both, transformer + observables": replace(UNUSUAL, with_plain=True),
    "no labels, keep both, transformer + observables, by parts": replace(
        UNUSUAL, with_plain=True, by_parts=True
    ),
    "contrastive, transformer, detector, long": Learned("transformer", "detector", steps=LONG),
    "contrastive, transformer, event, long": Learned("transformer", "event", steps=LONG),
    "contrastive, mlp, event, long": Learned(steps=LONG),
    "6-D contrastive, mlp, event": Learned(outputs=6),
    "6-D keep observables, beta 1": _mixed("observables", 1.0, 6),
    "6-D keep observables, beta 10": _mixed("observables", 10.0, 6),
    "6-D keep inputs, beta 1": _mixed("inputs", 1.0, 6),
    "6-D keep inputs, beta 10": _mixed("inputs", 10.0, 6),
    "6-D keep variance, beta 1": _mixed("variance", 1.0, 6),
    "6-D keep variance, beta 10": _mixed("variance", 10.0, 6),
    "6-D no labels, keep observables": _mixed("observables", 1.0, 6, 0.0),
    "6-D no labels, keep inputs": _mixed("inputs", 1.0, 6, 0.0),
}


@dataclass(frozen=True)
class Samples:
    """Simulated events after the cuts, kept in a folder."""

    folder: Path

    def mix(self, role: str, without: str) -> Events:
        """Return the background of a role, without a process."""
        events = self._events(role, BACKGROUND, EVENTS[role])
        if without == WHOLE:
            return events
        return events[events.process != process_code(without)]

    def anomaly(self, process: str) -> Events:
        return self._events("anomaly", process, ANOMALY_EVENTS)

    def changed(self, process: str, change: str) -> NDArray[np.float32]:
        """Return events of a process that a change does something to, changed, after the cuts."""
        events = self.anomaly(process)
        rng = np.random.default_rng([SEEDS["change"], process_code(process), list(CHANGES).index(change)])
        others = events.particles[rng.permutation(len(events))]
        changed = change_events(change, events.layout, events.particles, others, rng)
        return Selection().apply(Events.unlabelled(events.layout, changed))[0].particles

    def _events(self, role: str, process: str, n_events: int) -> Events:
        path = self.folder / f"{role}-{process}-{n_events}.npz"
        if not path.exists():
            made = concatenate(list(Simulation(process, n_events, seed=SEEDS[role]).blocks()))
            events, _ = Selection().apply(made)
            with path.with_suffix(".part").open("wb") as stream:
                np.savez(stream, particles=events.particles, process=events.labels_among(PROCESS_NAMES))
            path.with_suffix(".part").rename(path)
        stored = np.load(path)
        return Events(ADC2021_LAYOUT, stored["particles"], stored["process"], PROCESS_NAMES)


@dataclass(frozen=True)
class Trainer:
    """Encoders without a process, from the folder if they are there."""

    folder: Path
    samples: Samples

    def space(
        self, setting: Learned | None, seed: int, without: str, changes: tuple[str, ...] | None = None
    ) -> tuple[SpaceMap, float]:
        """Return a space, and the CPU seconds of its training; what learns from changes knows `changes`."""
        plain = ObservableSpace(ADC2021_LAYOUT, Observables(PLAIN))
        if setting is None:
            return plain, 0.0
        name = f"{setting.kind}-{setting.frame}-{setting.outputs}-{setting.steps}"
        for value in setting.objective.values():
            name += f"-{'+'.join(value) if isinstance(value, tuple) else value}"
        if not setting.knows_changes:
            changes = None
        elif changes is None:
            changes = tuple(CHANGES)
        else:
            name += f"-{changes[0]}"
        place = self.folder / "encoders" / f"{name}-{without}-{seed}"
        path, costs = place / "encoder.safetensors", place / "seconds.json"
        if not path.exists():
            place.mkdir(parents=True, exist_ok=True)
            clock = time.process_time()
            samplers = [
                Sampler(
                    self.samples.mix(role, without),
                    (JetEnergyScale(),),
                    Selection(),
                    size,
                    batches,
                    changes=changes or (),
                )
                for role, size, batches in (
                    ("training", BATCH, 1000 + seed),
                    ("validation", VALIDATION_BATCH, 1),
                )
            ]
            trained = CoTraining(*samplers, setting.encoder, setting.training(seed), place).run()
            write_bytes(costs, json.dumps(time.process_time() - clock).encode())
            trained.save(path, {"without": without, "seed": seed})
        encoder = load_encoder(path)
        space = JoinedSpace({"learned": encoder, "plain": plain}) if setting.with_plain else encoder
        return space, float(json.loads(costs.read_text()))


def second_order(
    samples: Samples, space: SpaceMap, seed: int, without: str, by_parts: bool = False
) -> tuple[AdaptivePower, Float32]:
    """Return the formula, and z of the events that its law was made from."""
    basis, moments = (encode(space, samples.mix(role, without).particles) for role in ("basis", "moments"))
    parts: Parts = ()
    if by_parts and isinstance(space, JoinedSpace):
        parts = tuple((name, part.outputs) for name, part in space.parts.items())
    test = AdaptiveTest(choose_members(basis, AdaptiveSettings(seed=seed), SIZES, parts))
    return AdaptivePower.of(test, _dataset(moments, moments[:1]), SIZES.reference), moments


def judge(
    samples: Samples, space: SpaceMap, seed: int, scenario: str, by_parts: bool = False
) -> dict[str, dict[str, list[float]]]:
    """Return the median Z and the power for everything that is injected, at each of its shares."""
    without = scenario if scenario in LEFT_OUT else WHOLE
    order, _ = second_order(samples, space, seed, without, by_parts)
    shares = SIGNAL_SHARES if scenario == WHOLE else SHARES
    found = {}
    for name, particles in injected(samples, scenario).items():
        z = encode(space, particles)
        response, numbers = Response.none(len(z)), [share * SIZES.expected for share in shares]
        found[name] = {
            "z": [order.median_z(z, response, n) for n in numbers],
            "power": [order.power(z, response, n, ALARM_Z) for n in numbers],
        }
    return found


def injected(samples: Samples, scenario: str) -> dict[str, NDArray[np.float32]]:
    """Return the anomalies of a scenario: a process, changed events, or the paper's signals."""
    if scenario in HALVES:
        other = next(changes for half, changes in HALVES.items() if half != scenario)
        pairs = [(process, change) for change in other for process in CHANGED]
        return {f"{process} {change}": samples.changed(process, change) for process, change in pairs}
    names = SIGNALS if scenario == WHOLE else (scenario,)
    return {name: samples.anomaly(name).particles for name in names}


def _dataset(reference: Float32, data: Float32, measured: float = 0.0) -> Dataset:
    weights = np.full(len(reference), SIZES.expected / len(reference))
    nothing = Response.none(len(reference)), Response.none(len(data))
    return Dataset(reference, data, weights, *nothing, np.empty(0), replace(YIELD, measured=measured))


Key = tuple[str, int, str]


def read_rows(path: Path) -> dict[Key, dict[str, Any]]:
    """Return the results by setting, seed and what was left out; the last line may have been cut short."""
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.endswith("}"):
            row = json.loads(line)
            rows[row["setting"], row["seed"], row["without"]] = row
    return rows


def run(folder: Path, settings: list[str], seeds: int, scenarios: tuple[str, ...]) -> None:
    """Judge every setting; all of them with one seed before any of them with the next."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = Samples(folder)
    trainer, path = Trainer(folder, samples), folder / "spaces.jsonl"
    known = read_rows(path)
    todo: Iterator[Key] = ((name, s, out) for s in range(seeds) for name in settings for out in scenarios)
    with path.open("a") as stream:
        for name, seed, without in todo:
            if (name, seed, without) in known:
                continue
            known_changes, left_out = HALVES.get(without), without if without in LEFT_OUT else WHOLE
            space, seconds = trainer.space(SETTINGS[name], seed, left_out, known_changes)
            clock = time.process_time()
            found = judge(samples, space, seed, without, by_parts(SETTINGS[name]))
            row = {"setting": name, "seed": seed, "without": without, "outputs": space.outputs}
            row |= {"train_seconds": seconds, "judge_seconds": time.process_time() - clock, "found": found}
            print(json.dumps(row), file=stream, flush=True)
            told = {}  # the paper's signals are looked at once, by --summary
            if without != WHOLE:
                told = {process: round(needed(each["z"]), 2) for process, each in found.items()}
            print(f"{time.strftime('%H:%M:%S')} {name}, seed {seed}, without {without}: {told}", flush=True)


def run_toys(folder: Path, settings: list[str], toys: int) -> None:
    """Fit toys of seed 0, at the share where the formula has Z = 3 and at 1 %: how much is it off?"""
    samples, path = Samples(folder), folder / "toys.jsonl"
    trainer, judged = Trainer(folder, samples), read_rows(folder / "spaces.jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    known = {tuple(json.loads(line)["key"]) for line in lines if line.endswith("}")}
    for name, without in ((name, without) for name in settings for without in LEFT_OUT):
        space, _ = trainer.space(SETTINGS[name], 0, without)
        order, moments = second_order(samples, space, 0, without, by_parts(SETTINGS[name]))
        shared = SharedMoments(order.test.members, ReferenceSample(moments, Response.none(len(moments))))
        test = replace(order.test, shared=shared)
        background = encode(space, samples.mix("data", without).particles)
        anomaly = encode(space, samples.anomaly(without).particles)
        weak = needed(judged[name, 0, without]["found"][without]["z"]) / 100.0
        for share, index in ((share, index) for share in (weak, CHOSEN_BY) for index in range(toys)):
            if (name, without, share, index) in known:
                continue
            rng = np.random.default_rng([SEEDS["data"], index])
            reference = rng.permutation(moments)[: SIZES.reference]
            drawn = [rng.permutation(background)[: rng.poisson(SIZES.expected)]]
            drawn.append(rng.permutation(anomaly)[: rng.poisson(share * SIZES.expected)])
            toy = _dataset(reference, np.concatenate(drawn), rng.normal(0.0, YIELD.sigma))
            t = likelihood_ratio(toy, test, 0).t
            z = -float(ndtri_exp(float(order.null.law.tabulated.log_sf(t))))
            formula = order.median_z(anomaly, Response.none(len(anomaly)), share * SIZES.expected)
            with path.open("a") as stream:
                row = {"key": [name, without, share, index], "z": z, "formula": formula}
                print(json.dumps(row), file=stream)
        print(f"{time.strftime('%H:%M:%S')} toys of {name}, {without}", flush=True)


def summarise_toys(folder: Path) -> None:
    """Print the median Z of toys beside the formula."""
    found: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for line in (folder / "toys.jsonl").read_text().splitlines():
        row = json.loads(line)
        found.setdefault(tuple(row["key"][:3]), []).append(row)
    print("| space | process | share, % | toys | median Z of toys | formula |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for (name, process, share), rows in found.items():
        z = np.array([row["z"] for row in rows])
        error = 1.25 * z.std(ddof=1) / np.sqrt(len(z))
        told = f"{len(z)} | {np.median(z):.2f} ± {error:.2f} | {rows[0]['formula']:.2f}"
        print(f"| {name} | {process} | {100 * share:.2f} | {told} |")


def needed(z: list[float]) -> float:
    """Return the share in per cent at which the median Z is 3, interpolated in logarithms; 2 % at most."""
    log_z = np.log(np.maximum.accumulate(np.maximum(z, 1e-2)))
    return 100.0 * float(np.exp(np.interp(np.log(EVIDENCE), log_z, np.log(SHARES))))


def _mean(values: Sequence[float] | Float64) -> str:
    """Write the mean over seeds, with the spread of the seeds; a single one stands alone."""
    if len(values) < 2:
        return f"{values[0]:.2f}"
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def summarise(folder: Path) -> None:
    """Print the table of the processes that were left out, and the choice."""
    rows = read_rows(folder / "spaces.jsonl")
    heads = ["space", "dimensions", "seeds", *(f"{name}, Z at 1 %" for name in LEFT_OUT), "mean Z at 1 %"]
    heads += ["mean Z, 0.5 to 2 %", *(f"{name}, % for Z = 3" for name in LEFT_OUT), "both", "CPU s"]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    by_z: dict[str, float] = {}
    by_need: dict[str, float] = {}
    for name in SETTINGS:
        seeds = sorted({key[1] for key in rows if key[0] == name})
        seeds = [seed for seed in seeds if all((name, seed, out) in rows for out in LEFT_OUT)]
        if not seeds:
            continue
        found = [[rows[name, seed, out]["found"][out]["z"] for out in LEFT_OUT] for seed in seeds]
        z = np.array(found)  # seeds x processes x shares
        need = np.array([[needed(each) for each in both] for both in found])
        both = np.sqrt(need.prod(axis=1))
        at, strong = z[:, :, SHARES.index(CHOSEN_BY)], z[:, :, -N_STRONG:].mean(axis=(1, 2))
        by_z[name], by_need[name] = float(at.mean()), float(both.mean())
        seconds = np.mean([rows[name, seed, out]["train_seconds"] for seed in seeds for out in LEFT_OUT])
        columns = [*at.T, at.mean(axis=1), strong, *need.T, both]
        told = [name, str(rows[name, seeds[0], LEFT_OUT[0]]["outputs"]), str(len(seeds))]
        print(f"| {' | '.join([*told, *map(_mean, columns), f'{seconds:.0f}'])} |")
    if by_z:
        print(f"\nlargest mean Z at 1 %, the rule: {max(by_z, key=by_z.__getitem__)}")
        print(f"smallest share for Z = 3: {min(by_need, key=by_need.__getitem__)}")


def summarise_changed(folder: Path) -> None:
    """Print the share at which changed events have Z = 3, by change, and the choice."""
    rows = read_rows(folder / "spaces.jsonl")
    changes = [change for half in reversed(HALVES.values()) for change in half]
    print(f"| space | dimensions | seeds | {' | '.join(changes)} | all |")
    print(f"| --- |{' ---: |' * (len(changes) + 3)}")
    overall: dict[str, float] = {}
    for name in SETTINGS:
        seeds = sorted({key[1] for key in rows if key[0] == name})
        seeds = [seed for seed in seeds if all((name, seed, half) in rows for half in HALVES)]
        if not seeds:
            continue
        found = [{k: v for half in HALVES for k, v in rows[name, s, half]["found"].items()} for s in seeds]
        logs = [
            [[np.log(needed(each[f"{process} {change}"]["z"])) for process in CHANGED] for change in changes]
            for each in found
        ]
        by_change = np.exp(np.mean(logs, axis=2))  # seeds x changes
        every = np.exp(np.mean(logs, axis=(1, 2)))
        overall[name] = float(np.exp(np.mean(np.log(every))))
        told = [name, str(rows[name, seeds[0], "first half"]["outputs"]), str(len(seeds))]
        means = [f"{mean:.2f}" for mean in np.exp(np.log(by_change).mean(axis=0))]
        spread = f" ± {every.std(ddof=1):.3f}" if len(every) > 1 else ""
        print(f"| {' | '.join([*told, *means])} | {overall[name]:.3f}{spread} |")
    if overall:
        print(f"\nsmallest share for Z = 3, the rule: {min(overall, key=overall.__getitem__)}")


def summarise_record(folder: Path) -> None:
    """Print the table of the paper's signals."""
    rows = read_rows(folder / "spaces.jsonl")
    print(f"| space | seeds | {' | '.join(SIGNALS)} |")
    print(f"| --- | ---: |{' ---: |' * len(SIGNALS)}")
    for name in SETTINGS:
        found = [row["found"] for key, row in rows.items() if (key[0], key[2]) == (name, WHOLE)]
        if found:
            z = [_mean([each[signal]["z"][0] for each in found]) for signal in SIGNALS]
            print(f"| {' | '.join([name, str(len(found)), *z])} |")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seeds", default=1, show_default=True, help="Trainings of every setting.")
@click.option("--setting", "settings", multiple=True, type=click.Choice(list(SETTINGS)), help="Not all.")
@click.option("--changed", is_flag=True, help="Changed events, with encoders of the whole background.")
@click.option("--record", is_flag=True, help="The paper's signals, with encoders of the whole background.")
@click.option("--toys", default=0, help="Fit so many toys, seed 0, to see how far the formula is off.")
@click.option("--summary", is_flag=True, help="Print the table of what is there.")
def main(
    folder: Path,
    seeds: int,
    settings: tuple[str, ...],
    changed: bool,
    record: bool,
    toys: int,
    summary: bool,
) -> None:
    """Compare spaces by processes that were left out, or by changed events."""
    torch.set_num_threads(1)
    if sum(map(bool, (changed, record, toys))) > 1:
        raise click.UsageError("--changed, --record and --toys are three things: ask for one of them")
    if summary and changed:
        summarise_changed(folder)
    elif summary:
        (summarise_record if record else summarise_toys if toys else summarise)(folder)
    elif toys:
        run_toys(folder, list(settings or SETTINGS), toys)
    else:
        scenarios = tuple(HALVES) if changed else (WHOLE,) if record else LEFT_OUT
        run(folder, list(settings or SETTINGS), seeds, scenarios)


if __name__ == "__main__":
    sys.exit(main())
