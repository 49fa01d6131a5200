"""`covad report` killed at any moment: the next one leaves the report that an undisturbed one leaves."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import covad

STUDY = """\
seed: 3
source: {kind: latent, nuisances: 1}
sizes: {expected: 200, reference: 1000}
tests: {convex: {bumps: 5}}
nu: [0, 1]
toys: 40
"""
#: Processes that are killed.
KILLS = 12


def report(run: Path, seconds: float | None = None) -> bool:
    """Start `covad report`, and kill it -9 after so many seconds; return whether it had ended before."""
    with subprocess.Popen(
        [sys.executable, "-m", "covad", "report", str(run)], stdout=subprocess.DEVNULL
    ) as process:
        try:
            assert process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return False
    return True


def report_files(run: Path) -> dict[str, bytes]:
    files = [run / "summary.json", run / "report.html", *(run / "report").rglob("*")]
    return {str(file.relative_to(run)): file.read_bytes() for file in files if file.is_file()}


@pytest.mark.slow
def test_a_killed_report_is_made_whole_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    run = covad.run(tmp_path / "study.yaml", tmp_path / "RUN", workers=1).path
    undisturbed = Path(shutil.copytree(run, tmp_path / "undisturbed"))
    began = time.monotonic()
    assert report(undisturbed)
    duration = time.monotonic() - began
    rng = np.random.default_rng(1)
    killed = 0
    while killed < KILLS:
        # late ones most: it is the end that writes
        killed += not report(run, duration * (1.0 - rng.uniform() ** 2))
        if rng.uniform() < 0.3:  # from the start, also after one that came through
            shutil.rmtree(run / "report", ignore_errors=True)
    assert report(run)
    expected, found = report_files(undisturbed), report_files(run)
    assert set(found) == set(expected)
    assert {name for name in expected if found[name] != expected[name]} == set()
    figure = next((run / "report" / "figures").iterdir())
    figure.write_bytes(figure.read_bytes()[:100])
    assert report(run)
    assert report_files(run) == expected
