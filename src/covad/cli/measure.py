"""The commands that measure spaces and tests: tune-power, bench toys, bench power."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from covad.cli.commands import Group, command, loudness
from covad.cli.terminal import say, write_file


@command(
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
    "n_anomalies",
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
    help="Yield of a process left out or of changed events, as a share; default: 0.005, 0.01 and 0.02.",
)
@click.option("--changed", is_flag=True, help="Events whose objects were changed are anomalies, too.")
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
    n_anomalies: int,
    toys: int,
    signals: tuple[str, ...],
    shares: tuple[float, ...],
    changed: bool,
    process: str | None,
    folder: Path | None,
    json_file: Path | None,
) -> None:
    """Compare settings by their power against anomalies that nobody tuned for.

    Random bumps in the space, and known processes that are left out of reference and data in turn; with
    --changed also events whose objects were changed. Several runs compare spaces: their alpha, their
    dimensions. The answer is kept in RUN/power. With --leave-out a study is written whose encoder never sees
    the process either.
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
        if any((capacities, spreads, bumps, tests, toys, signals, shares, changed, json_file)):
            raise click.UsageError("--leave-out only writes a study: leave the other options to its run")
        study_file = leave_out(runs[0], process, folder)
        say(f"wrote {study_file}; next: covad run {study_file} --out {folder / 'RUN'} --until pools")
        say(f"then: covad tune-power {folder / 'RUN'} --signal {process}")
        return
    given: dict[str, Any] = {"capacities": capacities, "spreads": spreads, "tests": tests}
    grid = Grid(bumps=bumps, **{key: value for key, value in given.items() if value})
    shares = shares or LEFT_OUT_SHARES
    found = {path: tune(path, grid, n_anomalies, toys, signals, shares, changed) for path in runs}
    if json_file:
        write_file(
            json_file, json.dumps({str(path): plain(each) for path, each in found.items()}, indent=2) + "\n"
        )
    print_tuning(found)
    for path in runs:
        frontier = read_frontier(RunDirectory(path))
        for line in () if frontier is None else frontier.lines:
            say(f"{path}: {line}" if len(runs) > 1 else line)


@click.group(
    cls=Group,
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
        write_file(json_file, json.dumps(asdict(times), indent=2) + "\n")


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
        write_file(json_file, json.dumps(plain(found), indent=2) + "\n")
    print_yardsticks(found, shape_names(RunDirectory(path).study()))
