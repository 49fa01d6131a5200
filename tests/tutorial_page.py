"""The commands of docs/tutorials/own-events.md, which has two examples, and a shell that runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorials" / "own-events.md"
#: Where the second example begins.
SECOND = "## Another layout, and a systematic of your own"
_SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(example: int) -> list[str]:
    """Return the lines of the shell blocks of the first or the second example, in order."""
    part = TUTORIAL.read_text().split(SECOND)[example - 1]
    return [line for block in _SHELL_BLOCK.findall(part) for line in block.splitlines()]


def verbs(example: int) -> list[str]:
    """Return the covad commands among them."""
    return [line.split()[1] for line in commands(example) if line.startswith("covad")]


def run_in_copy(folder: Path, copy: Path, lines: Iterable[str]) -> None:
    """Run commands in a copy of an example; each has to end well."""
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in lines:
        result = subprocess.run(
            line, shell=True, cwd=copy, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        assert result.returncode == 0, f"{line}: {result.stderr}"
