"""The command line: thin, it parses and prints; the rooms do the work.

Results go to stdout, progress to stderr. Whatever the user can mend ends in one sentence and exit code 2.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from covad import __version__
from covad.cli.commands import CommandLine, loudness
from covad.cli.terminal import complain, say
from covad.errors import CovadError, write_trouble
from covad.messages import counted, hide_library_warnings, show_messages
from covad.storage.atomic import replacing, writing

NO_RESULT = 1
USAGE_ERROR = 2
INTERRUPTED = 130


def main() -> None:
    """Entry point: turn expected failures into one sentence and an exit code."""
    hide_library_warnings()
    try:
        commands(prog_name="covad", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(complain("interrupted", INTERRUPTED))
    except click.exceptions.NoArgsIsHelpError as failure:
        say(failure.format_message())  # asked for nothing: help is the answer, not an error
    except click.UsageError as failure:
        command = failure.ctx.command_path if failure.ctx else "covad"
        said = " ".join(failure.format_message().split()).removesuffix(".")
        sys.exit(complain(f"{said}; `{command} --help` has the options and an example", failure.exit_code))
    except click.ClickException as failure:
        sys.exit(complain(failure.format_message(), failure.exit_code))
    except CovadError as failure:
        sys.exit(complain(str(failure), USAGE_ERROR))
    except MemoryError:
        sys.exit(
            complain(
                "there is not enough memory for this; ask for less, or use a larger machine", USAGE_ERROR
            )
        )
    except OSError as failure:
        what = failure.filename or "a file"
        sys.exit(complain(f"{what}: cannot be read or written {write_trouble(failure)}", USAGE_ERROR))


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; a pipe or a device, such as /dev/stdout, is written to as it is."""
    if path.exists() and not path.is_file():
        with writing(path):
            path.write_text(text)
        return
    with replacing(path.resolve()) as temporary, writing(path):
        temporary.write_text(text)


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    examples=(
        "covad init study.yaml",
        "covad run study.yaml --out RUN",
        "covad status RUN",
        "covad report RUN",
        "covad test RUN observed.h5",
    ),
)
@click.version_option(__version__, prog_name="covad")
def commands() -> None:
    """Signal-agnostic searches in a learned latent space, with systematic uncertainties profiled.

    `covad COMMAND --help` shows the options of a command.
    """
    show_messages()


@commands.command(
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


@commands.group(examples=("covad fetch adc2021 --out data",))
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


@commands.command(
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


@commands.command(
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
    if observed is not None:
        _compare_inputs(path, study_file, observed, figures)
        return
    if path is None or figures is not None:
        raise click.UsageError("PATH is missing" if path is None else "--figures needs --against OBSERVED")
    if (path / "study.json").exists():
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


@commands.command(
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


@commands.command(examples=("covad init study.yaml", "covad init --preset laptop study.yaml"))
@click.argument("study_file", type=click.Path(path_type=Path))
@click.option(
    "--preset",
    default="quick",
    show_default=True,
    help="quick, observables, laptop, paper or analysis; smoke only tries the installation.",
)
def init(study_file: Path, preset: str) -> None:
    """Write a study file to begin with."""
    from covad.study.presets import write_preset

    write_preset(preset, study_file)
    say(f"wrote {study_file}; next: covad run {study_file} --out RUN")


@commands.command(
    short_help="Print the JSON Schema of study files.", examples=("covad schema > study.schema.json",)
)
def schema() -> None:
    """Print the JSON Schema of study files, for editors that check and complete them."""
    from covad.study import json_schema

    say(json_schema(), nl=False)


@commands.command(
    short_help="Do what is missing of a study; stop and continue at will.",
    examples=(
        "covad run study.yaml --out RUN",
        "covad run study.yaml --out RUN --dry-run",
        "covad run study.yaml --out RUN --shard 3/20",
    ),
)
@click.argument("study_file", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Directory; continued if there.")
@click.option("--until", default="toys", show_default=True, help="Stop after this stage.", metavar="STAGE")
@click.option(
    "--workers",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Worker processes here, 1 to 10000; default: one per core.",
)
@click.option("--dask", "address", metavar="ADDRESS", help="Dask scheduler, such as tcp://host:8786.")
@click.option("--shard", default="1/1", show_default=True, metavar="I/N", help="Part I of N, for array jobs.")
@click.option("--dry-run", "only_told", is_flag=True, help="Only say what is kept, made anew and computed.")
@loudness
def run(
    study_file: Path,
    out: Path,
    until: str,
    workers: int | None,
    address: str | None,
    shard: str,
    only_told: bool,
) -> None:
    """Do what is missing of a study.

    Ctrl-C stops a run at any moment; the same command goes on from there. Stages: events, spaces, response,
    checks, pools, tune, toys.
    """
    from covad.pipeline import choose_workers, dry_run, run_study
    from covad.study import read_study
    from covad.toys.ensembles import Shard
    from covad.toys.run import RunStopped

    study = read_study(study_file)
    if only_told:
        for line in dry_run(study, out):
            say(line)
        return
    try:
        with choose_workers(study, workers, address) as pool:
            done = run_study(study, out, pool.results, Shard.parse(shard), until, workers)
    except RunStopped as stop:
        sys.exit(complain(str(stop), stop.exit_code))
    if done is not None:
        say(f"computed {done.computed} toys, {done.failed} of them failed")


@commands.command(
    short_help="Show how far a run is: stages, toys, time left.",
    examples=("covad status RUN", "covad status RUN --json"),
)
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="All numbers as JSON.")
def status(path: Path, as_json: bool) -> None:
    """Show where a run stands: toys requested = done + failed + missing, and the time left."""
    from covad.cli.status import print_status
    from covad.results.frontier import read_frontier
    from covad.runs.directory import RunDirectory
    from covad.runs.status import run_status
    from covad.storage.records import plain

    found, frontier = run_status(path), read_frontier(RunDirectory(path))
    if as_json:
        told = found.plain() | ({} if frontier is None else {"frontier": plain(frontier)})
        say(json.dumps(told, indent=2))
    else:
        print_status(found, frontier)


@commands.command(short_help="Write the page, figures and tables of a run.", examples=("covad report RUN",))
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@loudness
def report(path: Path) -> None:
    """Write report.html, figures, tables (LaTeX, CSV, HEPData) and summary.json from what a run has."""
    from covad.pipeline.report import report_run

    for line in report_run(path).lines:
        say(line)


@commands.command(
    "test",
    short_help="Test one observed event file: p, Z, where the excess is.",
    examples=(
        "covad test RUN observed.h5",
        "covad test RUN observed.h5 --expected 9800 --json answer.json",
        "covad test RUN observed.h5 --auxiliary jet_energy_scale=0.4",
    ),
)
@click.argument("run_path", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("observed", metavar="OBSERVED", type=click.Path(path_type=Path))
@click.option("--expected", type=float, help="Yield expected after the selection; default: the study's.")
@click.option("--auxiliary", multiple=True, metavar="NAME=VALUE", help="Measured nuisance, in sigma.")
@click.option(
    "--configuration",
    help="Slug or label of a configuration; default: the main one, which the report's summary is about: "
    "covariant, profiled, linear, of the study's sizes, else the first profiled, else the first.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the answer as JSON.")
@loudness
def test_observed(
    run_path: Path,
    observed: Path,
    expected: float | None,
    auxiliary: tuple[str, ...],
    configuration: str | None,
    json_file: Path | None,
) -> None:
    """Test one observed event file: t, p and Z, the nuisances, and where the excess lies.

    The last line is the result. The exit code is 1 if the fit failed, so that there is none.
    """
    from covad.cli.observation import print_observation
    from covad.cli.pairs import parse_values
    from covad.pipeline.observation import examine_and_keep

    measured = parse_values("--auxiliary", auxiliary)
    tested = examine_and_keep(
        run_path, observed, expected=expected, auxiliary=measured, configuration=configuration
    )
    answer = tested.observation.answer
    try:
        if json_file:  # first, so that it is there even if nobody reads the rest
            _write(json_file, tested.observation.to_json())
    finally:
        print_observation(tested.observation)
        if tested.remark is not None:
            say(f"note: {tested.remark}")
        say(answer.line)
    if answer.p is None:
        sys.exit(NO_RESULT)


@commands.command(
    short_help="Write encoders and responses as ONNX files.", examples=("covad export RUN --out onnx",)
)
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Directory; default: RUN/export.")
@loudness
def export(path: Path, out: Path | None) -> None:
    """Write encoders and responses as ONNX (extra 'onnx'), each checked against PyTorch."""
    from covad.pipeline.export import export_run

    for made in export_run(path, out):
        say(f"{made.path}: agrees with PyTorch to {made.largest_difference:.1e}")


@commands.command(
    "tune-power",
    short_help="Choose settings of a test, or a space, without any signal.",
    examples=(
        "covad tune-power RUN",
        "covad tune-power RUN --capacity 20 --capacity 45 --spread 3 --toys 200",
        "covad tune-power RUN_A RUN_B --json power.json",
        "covad tune-power RUN --leave-out ttbar --to without_ttbar",
        "covad tune-power without_ttbar/RUN --signal ttbar",
    ),
)
@click.argument("runs", metavar="RUNS", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--capacity", "capacities", multiple=True, type=float, help="Default: 10, 20, 45 and 90.")
@click.option("--spread", "spreads", multiple=True, type=float, help="Default: 3 and 10.")
@click.option("--bumps", type=click.IntRange(2, 5000), help="Bumps of the convex test; default: the study's.")
@click.option("--test", "tests", multiple=True, help="convex or adaptive; default: both.")
@click.option(
    "--anomalies",
    "n_bumps",
    default=40,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Random anomalies in each space.",
)
@click.option(
    "--toys",
    default=0,
    show_default=True,
    type=click.IntRange(0, 10**6),
    help="Toys of each family, with and without an anomaly; 0: the formula alone.",
)
@click.option("--signal", "signals", multiple=True, help="Signal of the study that counts as an anomaly.")
@click.option(
    "--share",
    "shares",
    multiple=True,
    type=float,
    help="Yield of a process left out, of the expected events; default: 0.005, 0.01 and 0.02.",
)
@click.option("--leave-out", "process", help="Write a study that is trained without this process; no more.")
@click.option("--to", "folder", type=click.Path(path_type=Path), help="Folder of that study and its events.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the powers as JSON.")
@loudness
def tune_power(
    runs: tuple[Path, ...],
    capacities: tuple[float, ...],
    spreads: tuple[float, ...],
    bumps: int | None,
    tests: tuple[str, ...],
    n_bumps: int,
    toys: int,
    signals: tuple[str, ...],
    shares: tuple[float, ...],
    process: str | None,
    folder: Path | None,
    json_file: Path | None,
) -> None:
    """Compare settings by their power against anomalies that nobody tuned for.

    Random bumps in the space, and known processes that are left out of reference and data in turn. Several
    runs compare spaces: their alpha, their dimensions. The answer is kept in RUN/power. With --leave-out a
    study is written whose encoder never sees the process either.
    """
    from covad.cli.power import print_tuning
    from covad.pipeline.leave_out import leave_out
    from covad.pipeline.tune_power import Grid
    from covad.pipeline.tune_power import tune_power as tune
    from covad.results.frontier import read_frontier
    from covad.runs.directory import RunDirectory
    from covad.storage.records import plain
    from covad.toys.anomalies import LEFT_OUT_SHARES

    if (process is None) != (folder is None) or (process is not None and len(runs) > 1):
        raise click.UsageError("--leave-out PROCESS needs --to FOLDER, and one run")
    if process is not None and folder is not None:
        study_file = leave_out(runs[0], process, folder)
        say(f"wrote {study_file}; next: covad run {study_file} --out {folder / 'RUN'} --until pools")
        say(f"then: covad tune-power {folder / 'RUN'} --signal {process}")
        return
    given: dict[str, Any] = {"capacities": capacities, "spreads": spreads, "tests": tests}
    grid = Grid(bumps=bumps, **{key: value for key, value in given.items() if value})
    found = {path: tune(path, grid, n_bumps, toys, signals, shares or LEFT_OUT_SHARES) for path in runs}
    if json_file:
        _write(
            json_file, json.dumps({str(path): plain(each) for path, each in found.items()}, indent=2) + "\n"
        )
    print_tuning(found)
    for path in runs:
        frontier = read_frontier(RunDirectory(path))
        for line in () if frontier is None else frontier.lines:
            say(f"{path.name}: {line}" if len(runs) > 1 else line)


@commands.group(
    short_help="Measure the tests: their speed, their power.",
    examples=("covad bench toys --fast", "covad bench power RUN"),
)
def bench() -> None:
    """Measure the tests: their speed on this machine, their power beside yardsticks."""


@bench.command("toys", examples=("covad bench toys --fast --json times.json",))
@click.option("--fast", is_flag=True, help="Fewer repetitions: under a minute.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the figures as JSON.")
def bench_toys(fast: bool, json_file: Path | None) -> None:
    """One toy of the profile-likelihood test, by every solver, on one core."""
    from covad.cli import bench as benchmark
    from covad.parallel import in_one_thread

    times = in_one_thread(benchmark.bench_toys, fast)
    say(benchmark.format_table(times))
    if json_file:
        _write(json_file, json.dumps(asdict(times), indent=2) + "\n")


@bench.command(
    "power",
    short_help="The tests of a run beside yardsticks, on the same toys.",
    examples=("covad bench power RUN --toys 100 --json power.json",),
)
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--toys",
    default=100,
    show_default=True,
    type=click.IntRange(1, 10**6),
    help="Toys of every ensemble: the first ones of the run.",
)
@click.option("--signal-toys", type=click.IntRange(1, 10**6), help="Toys of signals, where fewer will do.")
@click.option("--configuration", help="Slug or label of a configuration; default: the main one.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the table as JSON.")
@loudness
def bench_power(
    path: Path, toys: int, signal_toys: int | None, configuration: str | None, json_file: Path | None
) -> None:
    """The tests of a run beside yardsticks on the same toys (extra 'yardsticks').

    Supervised classifiers that know the signal, a profiled chi2 in cells of z, the best of 1-D tests, a
    classifier two-sample test; each calibrated by its own null toys at nu = 0. The table is kept in
    RUN/power, and the report shows it. Ctrl-C stops it; the same command goes on from there.
    """
    from covad.cli.power import print_yardsticks
    from covad.pipeline.yardsticks import bench_power as measure
    from covad.runs.directory import RunDirectory
    from covad.storage.records import plain
    from covad.study.plan import shape_names

    found = measure(path, toys, configuration, signal_toys)
    if json_file:
        _write(json_file, json.dumps(plain(found), indent=2) + "\n")
    print_yardsticks(found, shape_names(RunDirectory(path).study()))


@commands.command(short_help="Check this installation.", examples=("covad doctor",))
def doctor() -> None:
    """Check this installation: versions, cores, caches, optional extras, and a short computation.

    The exit code is 1 if something is wrong; every problem has a line that says how to mend it.
    """
    from covad.doctor import examine_installation

    problems = 0
    for finding in examine_installation():
        problems += finding.problem
        say(f"{'problem: ' if finding.problem else ''}{finding.text}")
    if problems:
        say(f"{counted(problems, 'problem')} found")
        sys.exit(NO_RESULT)
    say("everything works")


@commands.command(
    short_help="Print the script for completion in bash, zsh or fish.",
    examples=(
        "covad completion bash >> ~/.bashrc",
        "covad completion zsh >> ~/.zshrc",
        "covad completion fish > ~/.config/fish/completions/covad.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and file names in your shell."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"click has no completion for {shell}: use bash, zsh or fish")
    say(made(commands, {}, "covad", "_COVAD_COMPLETE").source())
