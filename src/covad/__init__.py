"""Signal-agnostic searches in a learned latent space, with systematic uncertainties profiled.

    compare    test any two samples, as arrays
    open_run   read a run: summary, toys, study
    run        do what is missing of a study
    test       test an observed file against a run
    plot       closure, power and excess, on matplotlib Axes

Each is imported when it is first used: `import covad` itself loads neither torch nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covad import plot
    from covad.inference.comparison import compare
    from covad.pipeline.observation import test
    from covad.pipeline.stages import run
    from covad.results.run import open_run

__version__ = "0.2.0"
__all__ = ["compare", "open_run", "plot", "run", "test"]

_HOMES = {
    "compare": "covad.inference.comparison",
    "open_run": "covad.results.run",
    "run": "covad.pipeline.stages",
    "test": "covad.pipeline.observation",
}


def __getattr__(name: str) -> Any:
    if name == "plot":
        return import_module("covad.plot")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'covad' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
