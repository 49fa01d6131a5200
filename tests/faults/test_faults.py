"""The faults as tests, with a marker of their own: an hour. What they try is counted by default."""

import subprocess
import sys

import pytest
from faults.faults import all_faults
from faults.flips import KINDS
from faults.outcome import COMMANDS


def test_there_are_enough_faults():
    faults = all_faults()
    assert len({fault.name for fault in faults}) == len(faults) >= 150
    assert {command for kind in KINDS for command in (*kind.flips, *kind.rough)} == set(COMMANDS)
    # without the kinds that a run may not have
    assert sum(sum(kind.flips.values()) for kind in KINDS if kind.always) >= 2000


@pytest.mark.faults
@pytest.mark.parametrize("part", ["named", "flips", "kills"])
def test_every_fault_ends_as_it_should(part, tmp_path):
    words = [sys.executable, "-m", "faults", "--out", str(tmp_path), "--only", part]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
