"""The commands on events: simulate, fetch, convert, inspect, yields."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import click

from covad.cli.commands import Group, command, loudness
from covad.cli.terminal import say


@command(
    short_help="Simulate collisions, and write an event file.",
    examples=("covad simulate --process background --events 10000 --out background.h5",),
)
@click.option(
    "--process", required=True, help="w, z, qcd, ttbar, lq, a4l, h0, hpm, or background for the mix."
)
@click.option("--events", required=True, type=int, help="Number of events that pass the lepton filter.")
@click.option("--seed", default=0, show_default=True, help="Same seed, same events.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="HDF5 file; replaced if there.")
@click.option(
    "--engine", default="parametric", show_default=True, help="parametric or pythia8 (extra 'pythia')."
)
@click.option(
    "--lepton-filter", default=23.0, show_default=True, help="GeV; lower it to study lepton scales."
)
@click.option(
    "--pileup-jets", default=0.0, show_default=True, help="Mean number of soft extra jets an event."
)
@click.option("--inject", multiple=True, metavar="NAME=EVENTS", help="Hide events of a signal in the sample.")
@click.option(
    "--shift",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="Shift all events by a built-in systematic; the amount is relative, 0.025 is 2.5 %.",
)
@loudness
def simulate(
    process: str,
    events: int,
    seed: int,
    out: Path,
    engine: str,
    lepton_filter: float,
    pileup_jets: float,
    inject: tuple[str, ...],
    shift: tuple[str, ...],
) -> None:
    """Simulate collisions and write them in the layout of the public dataset.

    With --inject and --shift the sample is pseudo-data: for instance background with 60 events of a4l hidden
    in it, and a jet energy scale that is 2.5 % too high (--shift jet_energy_scale=0.025).
    """
    from covad.cli.console import with_progress
    from covad.cli.pairs import parse_counts, parse_values
    from covad.events.files import EventWriter
    from covad.events.processes import PROCESS_NAMES
    from covad.simulation.detector import Detector
    from covad.simulation.pseudo_data import PseudoData
    from covad.simulation.simulate import Simulation

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the unfinished file is removed
    detector = Detector(lepton_filter=lepton_filter, pileup_jets=pileup_jets)
    sample = Simulation(process, events, seed, engine, detector)
    made = PseudoData(sample, parse_counts("--inject", inject), parse_values("--shift", shift))
    with EventWriter(out, sample.layout, PROCESS_NAMES, made.provenance) as writer:
        for block in with_progress(made.blocks(), made.n_events, "simulating"):
            writer.append(block)
    say(f"wrote {made.n_events} events of {' and '.join((process, *made.injected))} to {out}")


@click.group(cls=Group, examples=("covad fetch adc2021 --out data",))
def fetch() -> None:
    """Download public datasets, verified."""


@fetch.command("adc2021", examples=("covad fetch adc2021 --sample background --sample lq --out data",))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Directory for the files.")
@click.option("--sample", "samples", multiple=True, help="background, a4l, lq, hpm or h0; default: all.")
@click.option("--url", help="Mirror of the public service.")
@loudness
def fetch_adc2021(out: Path, samples: tuple[str, ...], url: str | None) -> None:
    """Download the 40 MHz dataset. A broken download is continued; size and checksum are verified."""
    from covad.cli.console import download_progress
    from covad.events.download import RECORDS
    from covad.events.download import fetch as fetch_files

    with download_progress() as progress:
        files = fetch_files(samples or tuple(RECORDS), out, url, progress)
    for file in files:
        note = "already there" if file.was_there else "fetched"
        say(f"{file.path}: {note}, {file.size} bytes, {file.checksum} verified")


@command(
    short_help="Convert ROOT or Parquet files to an event file.",
    examples=(
        "covad convert --describe nano.root",
        "covad convert --mapping nanoaod --process tt 1.root 2.root --out tt.h5",
        "covad convert --mapping nanoaod --data run2016.root --out observed.h5",
        "covad convert mapping.yaml tree.root --out events.h5",
        "covad convert --mapping nanoaod --print > mapping.yaml",
    ),
)
@click.argument("paths", metavar="[MAPPING] FILES", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--mapping", metavar="NAME", help="Ready: nanoaod, atlas-flat, atlas-open-data, physlite or delphes."
)
@click.option("--out", type=click.Path(path_type=Path), help="HDF5 file; replaced if there.")
@click.option("--process", metavar="NAME", help="Process of all events; signals and data need none.")
@click.option("--data", is_flag=True, help="Data: without weights, variations and shifted branches.")
@click.option(
    "--sum-of-weights",
    metavar="NUMBER",
    help="Sum of generator weights before any cut; 'events': that of these files.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Worker processes, 1 to 10000; default: one per core.",
)
@click.option("--describe", "only_described", is_flag=True, help="List branches; say which mapping fits.")
@click.option("--print", "only_printed", is_flag=True, help="Print the ready mapping, to write your own.")
@loudness
def convert(
    paths: tuple[Path, ...],
    mapping: str | None,
    out: Path | None,
    process: str | None,
    data: bool,
    sum_of_weights: str | None,
    workers: int | None,
    only_described: bool,
    only_printed: bool,
) -> None:
    """Convert ROOT or Parquet files to an event file (extra 'root').

    MAPPING is a YAML file that says which branches become which objects, cuts, weights and variations; or
    take a ready one. The files are of one process, or all data.
    """
    from covad.cli import conversion

    if only_described:
        conversion.print_descriptions(paths)
        return
    if only_printed:
        conversion.print_mapping(mapping)
        return
    chosen, files = conversion.choose_mapping(mapping, paths)
    if out is None:
        raise click.UsageError("Missing option '--out'")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the unfinished file is removed
    changed = conversion.changed_mapping(chosen, process, data, sum_of_weights)
    conversion.convert_files(changed, files, out, workers)


@command(
    short_help="Show what an event file holds, or compare it with a run.",
    examples=(
        "covad inspect events.h5",
        "covad inspect events.h5 --study study.yaml",
        "covad inspect RUN --against observed.h5 --figures figures",
    ),
)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="File with the labels of a prepared npz.")
@click.option("--systematic", help="Built-in one to apply; default: jet_energy_scale.")
@click.option("--collection", help="Collection whose change is shown; default: jet, if there are jets.")
@click.option(
    "--study",
    "study_file",
    type=click.Path(path_type=Path),
    help="Apply the cuts and the systematics of this study file; without it nothing is cut.",
)
@click.option(
    "--against",
    "observed",
    type=click.Path(path_type=Path),
    help="Compare this observed file with the background of PATH, a run, or of the study, input by input.",
)
@click.option("--figures", type=click.Path(path_type=Path), help="Directory for pictures of the comparison.")
@loudness
def inspect(
    path: Path | None,
    labels: Path | None,
    systematic: str | None,
    collection: str | None,
    study_file: Path | None,
    observed: Path | None,
    figures: Path | None,
) -> None:
    """Show what an event file holds: counts, ranges, cuts and systematics at work. Of a run: its status."""
    of_a_file = {"--labels": labels, "--systematic": systematic, "--collection": collection}
    given = [name for name, value in of_a_file.items() if value is not None]
    if observed is not None:
        if given:
            raise click.UsageError(f"{given[0]} does not go with --against: samples are taken as they are")
        _compare_inputs(path, study_file, observed, figures)
        return
    if path is None or figures is not None:
        raise click.UsageError("PATH is missing" if path is None else "--figures needs --against OBSERVED")
    if (path / "study.json").exists():
        given += ["--study"] if study_file else []
        if given:
            raise click.UsageError(f"{given[0]} is for event files, and {path} is a run")
        from covad.cli.status import print_status
        from covad.cli.yields import yields_of_run
        from covad.runs.status import run_status

        print_status(run_status(path))
        for line in yields_of_run(path):
            say(line)
        return
    from covad.cli.inspection import inspect_file

    if study_file and systematic:
        raise click.UsageError("--systematic and --study exclude each other: a study names its own")
    inspect_file(path, labels, systematic, collection, study_file)


def _compare_inputs(run: Path | None, study_file: Path | None, observed: Path, figures: Path | None) -> None:
    """Compare an observed file with the background of a run or of a study."""
    if (run is None) == (study_file is None):
        raise click.UsageError("--against needs a run, `covad inspect RUN`, or a study, `--study STUDY`")
    from covad.cli.inputs import print_comparison, write_figures
    from covad.observed.inputs import compare_with_run, compare_with_study
    from covad.study import read_study

    if study_file is not None:
        comparison = compare_with_study(read_study(study_file), study_file, observed)
    elif run is not None:
        comparison = compare_with_run(run, observed)
    print_comparison(comparison, observed)
    if figures is not None:
        say(f"wrote {len(write_figures(comparison, observed, figures))} pictures to {figures}")


@command(
    short_help="Show what a study expects of every process.",
    examples=("covad yields study.yaml", "covad yields study.yaml --json"),
)
@click.argument("study_file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="All numbers as JSON.")
@loudness
def yields(study_file: Path, as_json: bool) -> None:
    """Show what is expected of every background process after the cuts; nothing is written.

    Events in the files, those that pass the cuts, as how many events without weights they count, the share of
    negative weights, the efficiency, the yield with its error from the finite simulation, and its share.
    """
    from covad.cli.yields import lines_of, plain_of, yields_of_study

    data = yields_of_study(study_file)
    if as_json:
        say(json.dumps(plain_of(data), indent=2))
        return
    for line in lines_of(data):
        say(line)
