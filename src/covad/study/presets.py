"""Study files to begin with: `covad init --preset NAME STUDY.yaml`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from covad.errors import StudyError, UnknownNameError
from covad.storage.atomic import replacing, writing

#: `quick` shows all stages in minutes, `laptop` has spaces of our own beside the paper's, `paper` has the
#: paper's training sizes; `analysis` has nuisances of all kinds, `observables` learns no space, `joined` has
#: a learned space beside observables, `frontier` compares spaces of several alphas, `smoke` tries an
#: installation.
PRESETS = ("quick", "observables", "joined", "laptop", "paper", "analysis", "frontier", "smoke")


def preset_text(name: str) -> str:
    """Return a preset as it is written: YAML with comments."""
    if name not in PRESETS:
        raise UnknownNameError(f"there is no preset '{name}' (there are {', '.join(PRESETS)})")
    return files("covad.study").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")


def write_preset(name: str, path: Path) -> None:
    """Write a study file; one that is there already is the user's, and stays.

    An empty file takes the name first, which only one writer can do, also where there are no hard links.
    """
    text = preset_text(name)
    with writing(path):
        try:
            path.touch(exist_ok=False)
        except FileExistsError as failure:
            raise StudyError(
                f"{path}: is there already, and is not overwritten: choose another name"
            ) from failure
    try:
        with replacing(path) as temporary, writing(path):
            temporary.write_text(text, encoding="utf-8")
    except BaseException:
        path.unlink()
        raise
