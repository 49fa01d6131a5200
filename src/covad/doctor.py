"""`covad doctor`: does this installation work? What is wrong names its fix.

Each check looks at one thing and stands on its own, so that one broken package does not hide another problem.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

import covad
from covad.errors import ComparisonWarning, CovadError, WorkerError, extra_advice, install_advice
from covad.messages import duration_text
from covad.parallel import cores, run_jobs

EXTRAS = ("pythia", "dask", "onnx", "yardsticks")
#: The packages whose versions are shown; the versions of all others are checked too.
_SHOWN = (("numpy", "scipy", "numba", "torch"), ("h5py", "pyarrow", "pydantic", "matplotlib"))
_INSTALL = install_advice("--force-reinstall -e .")
#: Equal samples have a smaller p by chance once in a thousand seeds; this seed was taken before it was tried.
_SMALLEST_P = 1e-3
_SEED = 20261117


@dataclass(frozen=True)
class Finding:
    """What a check found: a fact, or a problem with its fix."""

    text: str
    problem: bool = False


def examine_installation() -> Iterator[Finding]:
    """Yield what every check finds, as it finds it."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        check_versions,
        check_extras,
        check_cores,
        check_numba_cache,
        check_matplotlib_cache,
        check_temporary_files,
        check_comparison,
        check_kernels,
    )
    for check in checks:
        try:
            yield from check()
        except ImportError as failure:
            yield Finding(f"{failure.name or 'a package'} cannot be imported ({failure}): {_INSTALL}", True)
        except CovadError as failure:
            yield Finding(str(failure), True)
        except (RuntimeError, OSError) as failure:
            part = check.__name__.removeprefix("check_").replace("_", " ")
            fix = f"mend the problems above, or install again: {_INSTALL}"
            yield Finding(f"{part}: cannot be checked ({failure}): {fix}", True)


def check_versions() -> Iterator[Finding]:
    """Compare the installed packages with what covad asks for."""
    system = f"{platform.system()} {platform.machine()}"
    yield Finding(f"covad {covad.__version__}, Python {platform.python_version()}, {system}")
    try:
        installed, wanted = version("covad"), _requirements()
    except PackageNotFoundError:
        yield Finding(
            f"covad itself is not installed, its versions cannot be checked: {install_advice('-e .')}", True
        )
        return
    for names in _SHOWN:
        yield Finding(", ".join(f"{name} {_version(name) or 'missing'}" for name in names))
    if installed != covad.__version__:
        where = Path(covad.__file__).parent
        yield Finding(
            f"covad {installed} is installed, but {covad.__version__} is used, from {where}: "
            "install again what you use, or take its folder out of PYTHONPATH",
            True,
        )
    for requirement in wanted:
        if (mistake := _mistake(requirement)) is not None:
            yield Finding(f"{mistake}: pip install '{requirement.name}{requirement.specifier}'", True)


def check_extras() -> Iterator[Finding]:
    """Say which optional parts are there; a missing one is no problem, one that is too old is."""
    for extra in EXTRAS:
        wanted = _requirements(extra)
        missing = [requirement.name for requirement in wanted if _version(requirement.name) is None]
        install = extra_advice(extra)
        if missing:
            lacking = "" if len(missing) == len(wanted) else f", {' and '.join(missing)} missing"
            yield Finding(f"extra {extra}: not installed{lacking} ({install})")
            continue
        mistakes = [mistake for requirement in wanted if (mistake := _mistake(requirement)) is not None]
        yield from (Finding(f"extra {extra}: {mistake}: {install}", True) for mistake in mistakes)
        if not mistakes:
            yield Finding(f"extra {extra}: installed")


def _requirements(extra: str = "") -> list[Requirement]:
    """Return what covad needs here, or what an extra of it needs on top."""
    found = [Requirement(line) for line in requires("covad") or ()]
    return [
        requirement
        for requirement in found
        if ("extra" in str(requirement.marker or "")) == bool(extra)
        and (requirement.marker is None or requirement.marker.evaluate({"extra": extra}))
    ]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _mistake(requirement: Requirement) -> str | None:
    """Say what is wrong with the installed version of a package, if something is."""
    found = _version(requirement.name)
    if found is None:
        return f"{requirement.name} is not installed"
    if not requirement.specifier.contains(found, prereleases=True):
        return f"{requirement.name} {found} is installed, but {requirement.specifier} is needed"
    return None


def check_cores() -> Iterator[Finding]:
    """Start a worker process as a run does, and look whether it uses one thread."""
    here, all_cores = cores(), os.cpu_count() or 1
    try:
        run_jobs(refuse_threads, [()], 1)
    except WorkerError as failure:
        yield Finding(
            f"worker processes do not work ({failure}): look whether memory or processes are limited here "
            "(ulimit -a)",
            True,
        )
        return
    share = f"{here} cores" if here == all_cores else f"{here} of {all_cores} cores"
    yield Finding(f"{share}: covad run starts {here} worker processes with one thread each")


def refuse_threads() -> None:
    """Raise WorkerError if this process uses more than one thread for torch or numba."""
    threads = {
        "torch": import_module("torch").get_num_threads(),
        "numba": import_module("numba").get_num_threads(),
    }
    for package, number in threads.items():
        if number != 1:
            raise WorkerError(f"{package} uses {number} threads in a worker instead of one")


def check_numba_cache() -> Iterator[Finding]:
    """Look whether compiled kernels can be kept: without that, every worker compiles them again."""
    fix = "set NUMBA_CACHE_DIR to a folder that you may write to"
    try:
        newton = import_module("covad.nplm.network.newton")
    except RuntimeError as failure:  # numba's way to say that it found no place
        yield Finding(f"numba has no place for its cache ({failure}): {fix}", True)
        return
    yield _writable("numba cache", Path(newton.bounded_step.stats.cache_path), fix)


def check_matplotlib_cache() -> Iterator[Finding]:
    """Look whether the list of fonts can be kept: without that, every report searches for fonts again."""
    fix = "set MPLCONFIGDIR to a folder that you may write to"
    asked_for = os.environ.get("MPLCONFIGDIR")
    folder = Path(import_module("matplotlib").get_cachedir())
    # without a place of its own, matplotlib makes one for this process, and names it in the environment
    if os.environ.get("MPLCONFIGDIR") != asked_for:
        yield Finding(f"matplotlib cache: its folder cannot be written to: {fix}", True)
    else:
        yield _writable("matplotlib cache", folder, fix)


def check_temporary_files() -> Iterator[Finding]:
    """Look whether there is a place for temporary files."""
    fix = "set TMPDIR to a folder that you may write to"
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError as failure:
        yield Finding(f"temporary files: {failure.strerror or failure}: {fix}", True)
    else:
        yield _writable("temporary files", folder, fix)


def _writable(what: str, folder: Path, fix: str) -> Finding:
    """Say whether a file can be written to a folder, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"covad doctor")
    except OSError as failure:
        return Finding(f"{what}: {folder} cannot be written to ({failure.strerror or failure}): {fix}", True)
    return Finding(f"{what}: {folder}, writable")


def check_comparison() -> Iterator[Finding]:
    """Compare two samples of the latent world that are equal, and two of which one has a signal."""
    import numpy as np

    from covad.inference.comparison import compare
    from covad.toys import latent_world

    began = time.monotonic()
    rng = np.random.default_rng(_SEED)
    reference, data = latent_world.background(10_000, rng), latent_world.background(1_000, rng)
    with_signal = np.concatenate([data[:900], latent_world.signal(100, rng)])
    with warnings.catch_warnings(action="ignore", category=ComparisonWarning):  # p says it all here
        equal, different = compare(reference, data), compare(reference, with_signal)
    seconds = duration_text(time.monotonic() - began)
    yield Finding(
        f"self-test: equal samples p = {equal.p:.2g}, a tenth of signal p = {different.p:.1g} ({seconds})"
    )
    if not _SMALLEST_P <= equal.p <= 1.0:
        yield Finding(f"self-test: equal samples have p = {equal.p:.2g}, which is wrong: {_INSTALL}", True)
    if not 0.0 <= different.p < _SMALLEST_P:
        yield Finding(f"self-test: a signal has p = {different.p:.2g}, it is not found: {_INSTALL}", True)


def check_kernels() -> Iterator[Finding]:
    """Take one step of the network's solver, whose answer is known; numba compiles it if it is not kept."""
    import numpy as np

    newton = import_module("covad.nplm.network.newton")
    began = time.monotonic()
    step, limit = np.zeros(2), np.ones(2)
    # the maximum of 0.5 x + 3 y - (x^2 + y^2) / 2 in a box of half width 1
    newton.bounded_step(np.array([0.5, 3.0]), np.eye(2), -limit, limit, 1e-9, step)
    seconds = duration_text(time.monotonic() - began)
    if np.allclose(step, [0.5, 1.0], atol=1e-6):
        yield Finding(f"self-test: numba compiles the kernels of the network ({seconds})")
    else:
        yield Finding(f"self-test: a kernel of the network answers {step}, not [0.5 1]: {_INSTALL}", True)
