"""The commands on studies and their runs: init, schema, run, status, report, test, export."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from covad.cli.commands import NO_RESULT, command, loudness
from covad.cli.terminal import complain, say, write_file


@command(examples=("covad init study.yaml", "covad init --preset laptop study.yaml"))
@click.argument("study_file", type=click.Path(path_type=Path))
@click.option(
    "--preset",
    default="quick",
    show_default=True,
    help="quick, observables, joined, frontier, laptop, paper or analysis; smoke tries the installation.",
)
def init(study_file: Path, preset: str) -> None:
    """Write a study file to begin with."""
    from covad.study.presets import write_preset

    write_preset(preset, study_file)
    say(f"wrote {study_file}; next: covad run {study_file} --out RUN")


@command(short_help="Print the JSON Schema of study files.", examples=("covad schema > study.schema.json",))
def schema() -> None:
    """Print the JSON Schema of study files, for editors that check and complete them."""
    from covad.study import json_schema

    say(json_schema(), nl=False)


@command(
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

    study, part = read_study(study_file), Shard.parse(shard)
    if only_told:
        for line in dry_run(study, out, until):
            say(line)
        return
    try:
        with choose_workers(study, workers, address) as pool:
            done = run_study(study, out, pool.results, part, until, workers)
    except RunStopped as stop:
        sys.exit(complain(str(stop), stop.exit_code))
    if done is not None:
        say(f"computed {done.computed} toys, {done.failed} of them failed")


@command(
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


@command(short_help="Write the page, figures and tables of a run.", examples=("covad report RUN",))
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@loudness
def report(path: Path) -> None:
    """Write report.html, figures, tables (LaTeX, CSV, HEPData) and summary.json from what a run has."""
    from covad.pipeline.report import report_run

    for line in report_run(path).lines:
        say(line)


@command(
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
    help="Slug or label of a configuration; default: the main one, which the report's summary is about: the "
    "study's `main`, else covariant, profiled, linear, else the first profiled, else the first.",
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
            write_file(json_file, tested.observation.to_json())
    finally:
        print_observation(tested.observation)
        if tested.remark is not None:
            say(f"note: {tested.remark}")
        say(answer.line)
    if answer.p is None:
        sys.exit(NO_RESULT)


@command(short_help="Write encoders and responses as ONNX files.", examples=("covad export RUN --out onnx",))
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Directory; default: RUN/export.")
@loudness
def export(path: Path, out: Path | None) -> None:
    """Write encoders and responses as ONNX (extra 'onnx'), each checked against PyTorch."""
    from covad.pipeline.export import export_run

    for made in export_run(path, out):
        say(f"{made.path}: agrees with PyTorch to {made.largest_difference:.1e}")
