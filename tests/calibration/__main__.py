"""Run the calibration suite: python -m calibration --out DIR. Stopped, it goes on where it was."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from calibration.checks import FAMILY_WISE, PULL_ERRORS, Check, rate_lines
from calibration.controls import LEVEL, Control
from calibration.ensembles import FULL, SEED, SMALL, Suite
from calibration.lines import all_lines

from covad.toys.backends.local import LocalWorkers
from covad.toys.run import stoppable


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the toys.")
@click.option("--workers", default=2, show_default=True)
@click.option("--small", is_flag=True, help="The version of `make test`.")
def main(out: Path, workers: int, small: bool) -> None:
    """Check the calibration of both tests on the analytic latent world."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    clock = time.monotonic()
    with stoppable(), LocalWorkers(workers) as local:
        suite = Suite(SMALL if small else FULL, out, local.results)
        lines = []
        for line in all_lines(suite):
            logging.info("%s", line)
            lines.append(line)
    checks = [line for line in lines if isinstance(line, Check)]
    controls = [line for line in lines if isinstance(line, Control)]
    minutes = (time.monotonic() - clock) / 60.0
    core_minutes = sum(os.times()[:4]) / 60.0  # of this process and its workers
    result: dict[str, Any] = {"seed": SEED, "minutes": minutes, "core_minutes": core_minutes}
    result["clips"] = dict(suite.clips)
    result |= {"checks": [asdict(c) for c in checks], "controls": [asdict(c) for c in controls]}
    (out / "calibration.json").write_text(json.dumps(result, indent=1) + "\n")
    print(tables(checks, controls, rate_lines(suite.scale)))
    print(f"\n{minutes:.1f} minutes with {workers} workers, {core_minutes:.0f} core-minutes, seed {SEED}")
    failed = [line for line in lines if not line.passed]
    sys.exit(f"{len(failed)} of the lines above failed" if failed else 0)


def tables(checks: Sequence[Check], controls: Sequence[Control], family: int) -> str:
    """Both tables in Markdown, as in docs/notes/calibration_suite.md."""
    limits = (
        f"Type-I errors: each p > {FAMILY_WISE / family:.2g}, which is a false-alarm rate of "
        f"{FAMILY_WISE:g} for all {family}. Pulls: within {PULL_ERRORS:g} standard errors."
    )
    return "\n".join(
        [
            f"{limits}\n",
            "| check | toys | observed | expected | p | |",
            "| --- | --- | --- | --- | --- | --- |",
            *(_check_row(check) for check in checks),
            f"\nControls: each statistic passes healthy toys but for a chance of {LEVEL:g}.\n",
            "| fault | statistic that must notice | toys | healthy | broken | power | |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *(_control_row(control) for control in controls),
        ]
    )


def _check_row(c: Check) -> str:
    p = "" if c.p is None else f"{c.p:.2g}"
    return f"| {c.group}: {c.name} | {c.toys} | {c.observed} | {c.expected} | {p} | {_verdict(c.passed)} |"


def _control_row(c: Control) -> str:
    row = (c.fault, c.statistic, str(c.toys), c.healthy, c.broken, f"{c.power:.4g}", _verdict(c.passed))
    return f"| {' | '.join(row)} |"


def _verdict(passed: bool) -> str:
    return "holds" if passed else "FAILS"


if __name__ == "__main__":
    main()
