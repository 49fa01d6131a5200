"""benchmarks/verdict_rates.py as a module: how often each verdict is given."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_PATH = Path(__file__).parents[1] / "benchmarks" / "verdict_rates.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_verdict_rates", _PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module
