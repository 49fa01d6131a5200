"""`covad doctor` finds what it looks for, and every problem names its fix."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import covad
from covad import doctor
from covad.cli.main import commands
from covad.errors import WorkerError, extra_advice
from covad.toys import latent_world


def problems(findings) -> list[str]:
    return [finding.text for finding in findings if finding.problem]


@pytest.fixture
def installed(monkeypatch):
    """A set of packages that is complete; tests take something away."""
    packages = {"covad": covad.__version__}
    for extra in ("", *doctor.EXTRAS):
        for requirement in doctor._requirements(extra):
            packages[requirement.name] = doctor.version(requirement.name)

    def version(name):
        if name not in packages:
            raise doctor.PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(doctor, "version", version)
    return packages


def test_what_is_complete_has_no_problem(installed):
    found = [*doctor.check_versions(), *doctor.check_extras()]
    assert problems(found) == []
    assert found[0].text.startswith(f"covad {covad.__version__}, Python 3.")
    told = [finding.text for finding in found[-len(doctor.EXTRAS) :]]
    assert told == [f"extra {name}: installed" for name in doctor.EXTRAS]


def test_packages_that_are_missing_or_too_old_are_told_with_the_command(installed):
    del installed["h5py"]
    installed["numpy"] = "1.26.4"
    assert problems(doctor.check_versions()) == [
        "h5py is not installed: pip install 'h5py>=3.10'",
        "numpy 1.26.4 is installed, but >=2.0 is needed: pip install 'numpy>=2.0'",
    ]


def test_a_missing_extra_is_no_problem_and_an_old_one_is(installed):
    del installed["onnx"], installed["onnxruntime"], installed["onnxscript"], installed["fastjet"]
    installed["dask"] = "2020.1"
    found = list(doctor.check_extras())
    assert problems(found) == [
        f"extra dask: dask 2020.1 is installed, but >=2024.8 is needed: {extra_advice('dask')}"
    ]
    assert f"extra pythia: not installed, fastjet missing ({extra_advice('pythia')})" in [
        f.text for f in found
    ]
    advice = "`pip install -e '.[onnx]' -c constraints.txt` in the source tree of covad"
    assert f"extra onnx: not installed ({advice})" in [f.text for f in found]


def test_another_covad_than_the_installed_one_is_told(installed):
    installed["covad"] = "0.0.1"
    (problem,) = problems(doctor.check_versions())
    assert f"covad 0.0.1 is installed, but {covad.__version__} is used, from " in problem
    del installed["covad"]
    assert "`pip install -e . -c constraints.txt` in the source tree" in problems(doctor.check_versions())[0]


def test_a_folder_that_cannot_be_written_to_is_a_problem(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert (
        doctor._writable("a cache", tmp_path / "new", "fix").text == f"a cache: {tmp_path / 'new'}, writable"
    )
    assert list((tmp_path / "new").iterdir()) == []
    blocked = doctor._writable("a cache", file / "below", "set PLACE")
    assert blocked.problem
    assert blocked.text == f"a cache: {file / 'below'} cannot be written to (Not a directory): set PLACE"
    newton = SimpleNamespace(
        bounded_step=SimpleNamespace(stats=SimpleNamespace(cache_path=str(file / "numba")))
    )
    monkeypatch.setattr(doctor, "import_module", lambda _: newton)
    assert problems(doctor.check_numba_cache())[0].endswith(
        "set NUMBA_CACHE_DIR to a folder that you may write to"
    )
    monkeypatch.setattr(doctor, "import_module", no_locator)
    assert "set NUMBA_CACHE_DIR" in problems(doctor.check_numba_cache())[0]


def no_locator(_):
    raise RuntimeError("cannot cache function: no locator available for file")


@pytest.mark.parametrize(("folder", "problem"), [("file/below", True), ("matplotlib-abcdefgh", False)])
def test_a_cache_of_matplotlib_is_judged_by_what_matplotlib_does(tmp_path, folder, problem):
    """If it cannot write there, it makes a folder for this process alone; a name alone tells nothing."""
    (tmp_path / "file").touch()
    program = (
        "from covad import doctor\n"
        "assert all(not finding.problem for finding in doctor.check_numba_cache())\n"
        "for finding in doctor.check_matplotlib_cache(): print(finding.problem, finding.text)"
    )
    places = {"MPLCONFIGDIR": str(tmp_path / folder), "TMPDIR": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | places, capture_output=True, text=True, check=True
    )
    said = (
        "its folder cannot be written to: set MPLCONFIGDIR" if problem else f"{tmp_path / folder}, writable"
    )
    assert shown.stdout.startswith(f"{problem} matplotlib cache: {said}")


def test_threads_in_a_worker_are_a_problem(monkeypatch):
    counted = SimpleNamespace(get_num_threads=lambda: 4)
    monkeypatch.setattr(doctor, "import_module", lambda _: counted)
    with pytest.raises(WorkerError, match="torch uses 4 threads in a worker instead of one"):
        doctor.refuse_threads()
    monkeypatch.setattr(doctor, "run_jobs", lambda function, jobs, workers: function())
    assert "(ulimit -a)" in problems(doctor.check_cores())[0]


def test_the_comparison_judges_equal_and_different_samples():
    (found,) = doctor.check_comparison()
    assert not found.problem
    assert found.text.startswith("self-test: equal samples p = 0.")


def test_a_test_that_is_blind_is_noticed(monkeypatch):
    monkeypatch.setattr(latent_world, "signal", latent_world.background)
    (problem,) = problems(doctor.check_comparison())
    assert re.match(r"self-test: a signal has p = .*, it is not found: `pip install", problem)


def test_a_test_that_sees_what_is_not_there_is_noticed(monkeypatch):
    true, drift = latent_world.background, iter([0.0, 1.0])
    monkeypatch.setattr(latent_world, "background", lambda n, rng: true(n, rng) + np.float32(next(drift)))
    (problem,) = problems(doctor.check_comparison())
    assert re.match(r"self-test: equal samples have p = .*, which is wrong: `pip install", problem)


def test_a_kernel_that_is_wrong_is_noticed(monkeypatch):
    (found,) = doctor.check_kernels()
    assert not found.problem
    lazy = SimpleNamespace(bounded_step=lambda *_: (0.0, 0.0))
    monkeypatch.setattr(doctor, "import_module", lambda _: lazy)
    (problem,) = problems(doctor.check_kernels())
    assert problem.startswith("self-test: a kernel of the network answers [0. 0.], not [0.5 1]: `pip install")


def test_a_broken_package_hides_no_other_problem(monkeypatch):
    def broken():
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        yield

    def fine():
        yield doctor.Finding("fine")

    monkeypatch.setattr(doctor, "check_versions", broken)
    for name in (
        "extras",
        "cores",
        "numba_cache",
        "matplotlib_cache",
        "temporary_files",
        "comparison",
        "kernels",
    ):
        monkeypatch.setattr(doctor, f"check_{name}", fine)
    result = CliRunner().invoke(commands, ["doctor"])
    lines = result.output.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith(
        "problem: pyarrow cannot be imported (No module named 'pyarrow'): `pip install"
    )
    assert lines[1:] == ["fine"] * 7 + ["1 problem found"]
    monkeypatch.setattr(doctor, "check_versions", fine)
    result = CliRunner().invoke(commands, ["doctor"])
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "everything works")


@pytest.mark.parametrize("failure", [RuntimeError("no locator available"), OSError("no space left")])
def test_a_check_that_cannot_be_done_is_a_problem_and_no_traceback(monkeypatch, failure):
    def stopped():
        raise failure
        yield

    for name in [name for name in vars(doctor) if name.startswith("check_")]:
        monkeypatch.setattr(doctor, name, lambda: iter(()))
    stopped.__name__ = "check_kernels"
    monkeypatch.setattr(doctor, "check_kernels", stopped)
    result = CliRunner().invoke(commands, ["doctor"])
    first, last = result.output.splitlines()
    assert first.startswith(f"problem: kernels: cannot be checked ({failure}): mend the problems above")
    assert (result.exit_code, last) == (1, "1 problem found")
