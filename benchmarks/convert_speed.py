"""How fast `covad convert` is beside plain reading: run it on a machine that does nothing else.

    python benchmarks/convert_speed.py --events 1000000 --compression lzma

It writes NanoAOD-like events with uproot (missing momentum, electrons, muons and jets, 20 % negative weights,
numbers rounded as NanoAOD rounds them), reads the branches that the ready mapping `nanoaod` needs with
`uproot.iterate`, and converts the same file on one core. Each is a process of its own, whose CPU time and
largest memory are taken; the start of Python counts in no time, and the imports of this file neither.
NanoAOD comes with LZMA or with ZLIB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import click
import numpy as np
import uproot

from covad.events.conversion.convert import prepare
from covad.events.conversion.mapping import ready_mapping

SEED = 20261118
#: Events of one cluster of the file: what the baskets of all branches hold together.
CLUSTER = 20_000
COMPRESSIONS = {"lzma": uproot.LZMA(9), "zlib": uproot.ZLIB(1), "zstd": uproot.ZSTD(5)}
#: Mean number per event and bits of mantissa that NanoAOD keeps.
OBJECTS = {"Electron": 0.8, "Muon": 0.8, "Jet": 5.0}
BITS = 10
LIMITS = {"seconds": 60.0, "megabytes": 500.0, "ratio": 2.0}


@dataclass(frozen=True)
class Cost:
    """What one process used."""

    cpu_seconds: float
    wall_seconds: float
    megabytes: float


def rounded(values: np.ndarray) -> np.ndarray:
    """Keep the leading bits of the mantissa, as NanoAOD does, so that the file compresses as well."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2**BITS) / 2**BITS, exponent).astype(np.float32)


def cluster(rng: np.random.Generator, n_events: int) -> dict[str, Any]:
    branches: dict[str, Any] = {
        "MET_pt": rounded(rng.exponential(40, n_events)),
        "MET_phi": rounded(rng.uniform(-np.pi, np.pi, n_events)),
        "genWeight": np.where(rng.random(n_events) < 0.2, -1.0, 1.0).astype(np.float32),
    }
    for name, mean in OBJECTS.items():
        counts = rng.poisson(mean, n_events)
        event = np.repeat(np.arange(n_events), counts)
        pt = 15 + rng.exponential(30, len(event))
        features = {
            "pt": pt[np.lexsort((-pt, event))],
            "eta": rng.normal(0, 1.5, len(event)),
            "phi": rng.uniform(-np.pi, np.pi, len(event)),
            "mass": rng.exponential(10, len(event)),
        }
        branches[name] = ak.zip({key: ak.unflatten(rounded(v), counts) for key, v in features.items()})
    return branches


def write_input(path: Path, n_events: int, compression: str) -> None:
    rng = np.random.default_rng(SEED)
    with uproot.recreate(path, compression=COMPRESSIONS[compression]) as file:
        first = cluster(rng, min(CLUSTER, n_events))
        types = {key: c.dtype if isinstance(c, np.ndarray) else c.type.content for key, c in first.items()}
        tree = file.mktree("Events", types)
        tree.extend(first)
        for start in range(CLUSTER, n_events, CLUSTER):
            tree.extend(cluster(rng, min(CLUSTER, n_events - start)))
        file.mktree("Runs", {"genEventSumw": "float64"}).extend({"genEventSumw": np.array([0.6 * n_events])})


def read_plainly(path: Path) -> None:
    """Read the branches of the ready mapping, and do nothing with them."""
    names = ["MET_pt", "MET_phi", "genWeight", *(f"{o}_{f}" for o in OBJECTS for f in ("pt", "eta", "phi"))]
    for _ in uproot.iterate(f"{path}:Events", filter_name=names, step_size=100_000):
        pass


def convert(path: Path) -> None:
    mapping = ready_mapping("nanoaod").changed(process="ttbar")
    out = path.with_suffix(".h5")
    conversion = prepare(mapping, [path], out)
    conversion.write(out, conversion.blocks(1))


def measured(work: str, path: Path) -> Cost:
    """Do one thing in a process of its own, on one core."""
    done = subprocess.run(
        ["taskset", "-c", "0", sys.executable, __file__, "--work", work, "--path", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return Cost(**json.loads(done.stdout))


def do(work: str, path: Path) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    {"read": read_plainly, "convert": convert}[work](path)
    used = time.process_time() - cpu, time.perf_counter() - wall
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(asdict(Cost(*used, megabytes))))


@click.command()
@click.option("--events", default=1_000_000, show_default=True)
@click.option("--compression", type=click.Choice([*COMPRESSIONS]), multiple=True, help="Default: all.")
@click.option("--repeat", default=3, show_default=True, help="Takes the fastest of so many.")
@click.option("--work", hidden=True)
@click.option("--path", type=click.Path(path_type=Path), hidden=True)
def main(events: int, compression: tuple[str, ...], repeat: int, work: str | None, path: Path | None) -> None:
    if work is not None and path is not None:
        do(work, path)
        return
    for name in compression or COMPRESSIONS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "nano.root"
            write_input(file, events, name)
            costs = {
                kind: min((measured(kind, file) for _ in range(repeat)), key=lambda cost: cost.cpu_seconds)
                for kind in ("read", "convert")
            }
            read, made = costs["read"], costs["convert"]
            ratio = made.cpu_seconds / read.cpu_seconds
            sizes = [file.stat().st_size / 1e6, file.with_suffix(".h5").stat().st_size / 1e6]
        click.echo(
            f"{name}: {events} events, {sizes[0]:.0f} MB to {sizes[1]:.0f} MB\n"
            f"  uproot.iterate {read.cpu_seconds:.2f} s of CPU, convert {made.cpu_seconds:.2f} s: ratio "
            f"{ratio:.2f} (goal {LIMITS['ratio']:g})\n"
            f"  {made.wall_seconds:.2f} s by the clock on one core (limit {LIMITS['seconds']:g}), "
            f"{made.megabytes:.0f} MB (limit {LIMITS['megabytes']:g})"
        )


if __name__ == "__main__":
    main()
