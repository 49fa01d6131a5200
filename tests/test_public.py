"""The public interface: five names, imported when they are used."""

import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from finished_run import make_run, simulated
from observations import many_nuisances, observation

import covad
from covad.errors import CovadError, FileFormatError, UnfinishedRunError, UnknownNameError
from covad.report.figures.statistic import draw_closure

STUDY = """\
seed: 3
source: {kind: latent, nuisances: 1}
sizes: {expected: 200, reference: 1000}
tests: {network: {clip: 1.4}, convex: {bumps: 5}}
configurations: [{treatment: none}, {treatment: profiled}]
nu: [0, 1]
signals: {signal: [20, 40]}
toys: 12
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    (folder / "study.yaml").write_text(STUDY)
    return covad.run(folder / "study.yaml", folder / "RUN", workers=2)


@pytest.fixture(scope="module")
def observed_run(tmp_path_factory):
    """A finished run of collisions, and an observed file."""
    folder = tmp_path_factory.mktemp("observed")
    return make_run(folder / "RUN"), simulated(folder / "observed.h5", "background", 210, seed=77)


def test_the_public_names_are_these():
    assert covad.__all__ == ["compare", "open_run", "plot", "run", "test"]
    assert dir(covad) == sorted([*covad.__all__, "__version__"])
    for name in covad.__all__:
        assert getattr(covad, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = covad.magic


def test_things_of_another_type_are_refused_in_a_sentence(run, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    for call, said in (
        (lambda: covad.open_run(5), "a run directory is named by its path, not by 5"),
        (lambda: covad.run(None, "out"), "a study file is named by its path, not by None"),
        (lambda: covad.run(tmp_path, 5), "is a directory"),
        (lambda: covad.test(None, "a.h5"), "a run directory is named by its path, not by None"),
        (
            lambda: covad.test(run.path, b"a", auxiliary=[1]),
            "an observed file is named by its path, not by b'a'",
        ),
        (lambda: run.toys(nu="one"), "nu is a number per nuisance"),
        (lambda: run.toys(nu=None), "has 0 ensembles of the test 'convex' at nu"),
        (
            lambda: run.toys(signal="signal", injected="many"),
            "injected a number of events, not 0.0 and 'many'",
        ),
        (lambda: run.toys(3), "no configuration '3'"),
        (lambda: run.toys(test=3), "has 0 ensembles of the test '3'"),
        (lambda: covad.plot.closure("RUN"), "a run, from covad.open_run is needed to draw this, not 'RUN'"),
        (lambda: covad.plot.power(None), "a run, from covad.open_run is needed"),
        (lambda: covad.plot.frontier("RUN"), "a run, from covad.open_run is needed"),
        (lambda: covad.plot.excess(3), "an observation, from covad.test is needed to draw this, not 3"),
    ):
        with pytest.raises(CovadError, match=re.escape(said)):
            call()
    (tmp_path / "study.yaml").write_text(STUDY)
    with pytest.raises(CovadError, match="one worker or more, not two"):
        covad.run(tmp_path / "study.yaml", tmp_path / "RUN", workers="two")


def test_importing_covad_loads_nothing_heavy():
    """Not even numpy, and covad.compare neither torch nor numba."""
    program = (
        "import sys, covad\n"
        "heavy = ('numpy', 'torch', 'numba', 'matplotlib')\n"
        "print([m for m in heavy if m in sys.modules])\n"
        "covad.compare\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['numpy']"]


def test_a_run_has_summary_and_toys(run):
    assert run.tests == ("convex", "network")
    assert {line.configuration for line in run.summary.closure} == {"latent-none", "latent-profiled"}
    toys = run.toys("latent, profiled", nu=0)
    assert toys.t.shape == (12,)
    assert toys.table().num_rows == 12
    assert (toys.t != run.toys("latent, profiled", nu=0, test="network").t).all()
    assert (run.toys(nu=np.int64(1)).t == run.toys(nu=1).t).all()
    assert (run.toys(nu=1).t == run.toys("latent, profiled", nu=[1.0], test="convex").t).all()
    assert run.toys(nu_norm=-1.5).column("true_norm") == pytest.approx(-0.15)
    assert (run.toys(nu_norm=np.float64(3)).t != run.toys().t).all()
    assert len(set(run.toys(prior=True).column("true_norm"))) == 12
    assert (run.toys(prior=True).t != run.toys().t).all()
    signals = run.toys("latent, profiled", signal="signal", injected=40)
    assert len(signals.t) == 12
    assert (signals.t != run.toys("latent, profiled", signal="signal", injected=20).t).all()


def test_opening_a_run_writes_nothing(run):
    def state():
        return {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}

    before = state()
    again = covad.open_run(str(run.path))
    assert again.summary == run.summary
    assert state() == before


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"configuration": "magic"}, "no configuration 'magic'"),
        (
            {"nu": 2},
            "0 ensembles of the test 'convex' at nu = .2 .it has: nu = 0; .*; nu_N = -3 sigma; .*; prior",
        ),
        ({"nu_norm": 2}, r"0 ensembles of the test 'convex' at nu_N = \+2 sigma .it has: nu = 0"),
        ({"nu_norm": 3, "signal": "signal"}, r"0 ensembles .* at nu_N = \+3 sigma with signal"),
        ({"configuration": "latent-none", "prior": True}, "0 ensembles .* at prior .it has: nu = 0"),
        ({"signal": "signal"}, "2 ensembles .* with signal"),
        ({"signal": "magic"}, "0 ensembles .* with magic"),
        ({"test": "magic"}, "test 'magic'"),
        ({"injected": 40}, "of which signal"),
    ],
)
def test_toys_that_are_not_there(run, asked, sentence):
    with pytest.raises(UnknownNameError, match=sentence):
        run.toys(**asked)


def test_a_run_stays_the_same_in_another_folder(run, tmp_path, monkeypatch):
    monkeypatch.chdir(run.path.parent)
    opened = covad.open_run("RUN")
    monkeypatch.chdir(tmp_path)
    assert opened.summary == run.summary


def test_workers_are_counted_from_one(run, tmp_path):
    with pytest.raises(CovadError, match="one worker or more, not 0"):
        covad.run(run.path.parent / "study.yaml", tmp_path, workers=0)


def test_an_ensemble_that_cannot_be_drawn_yet_is_no_empty_array(run, tmp_path):
    """Empty arrays of t would pass for a result."""
    stopped = covad.run(run.path.parent / "study.yaml", tmp_path / "RUN", until="tune", workers=1)
    assert len(stopped.toys("latent, profiled").t) == 0  # they are missing, and counted as such
    assert stopped.toys("latent, profiled").missing == 12
    (tmp_path / "RUN" / "basis" / "latent-profiled.json").unlink()
    with pytest.raises(UnfinishedRunError, match="no pools, clip or basis for the test 'convex'"):
        covad.open_run(tmp_path / "RUN").toys("latent, profiled", test="convex")


def test_what_is_no_run(tmp_path):
    with pytest.raises(FileFormatError, match="is not a run directory"):
        covad.open_run(tmp_path)
    with pytest.raises(FileFormatError, match="a run directory is named by its path, not by"):
        covad.open_run("a\0b")


def test_plots_take_and_return_axes(run):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    _, (left, right) = plt.subplots(1, 2)
    assert covad.plot.closure(run, ax=left) is left
    assert covad.plot.power(run, ax=right) is right
    assert left.get_xlabel() == "$t$"
    assert right.get_ylabel() == "power"
    other = covad.plot.closure(run, "latent-none", test="network")
    assert other.get_title(loc="left") == "network, latent, no nuisances"
    other.figure.savefig("/dev/null", format="png")
    plt.close("all")
    with pytest.raises(CovadError, match="no power of the test 'convex' for the signal 'magic'"):
        covad.plot.power(run, signal="magic")
    with pytest.raises(UnknownNameError, match="no learned spaces of several alphas"):
        covad.plot.frontier(run)


@pytest.mark.parametrize("test", ["network", "convex"])
def test_closure_is_drawn_from_the_t_that_is_judged(run, test, monkeypatch):
    """t at the nominal yield; R_0 has the toys of all five yields, as the null has.

    12 toys are too few to move t of the network: its R_0 has those at the nominal yield alone.
    """
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    drawn = {}

    def draw(axes, background, names, law):
        drawn.update(background)
        return draw_closure(axes, background, names, law)

    monkeypatch.setattr(covad.plot, "draw_closure", draw)
    covad.plot.closure(run, "latent-profiled", test=test)
    plt.close("all")
    (group,) = [
        group
        for group in run._collected.groups()
        if (group.test, group.configuration.slug) == (test, "latent-profiled")
    ]
    assert list(drawn) == [(0.0,), *group.shifted]
    np.testing.assert_array_equal(np.sort(drawn[0.0,]), np.sort(group.null_t))
    moved = test == "convex"
    assert len(drawn[0.0,]) == (60 if moved else 12)
    for nu, toys in group.shifted.items():
        np.testing.assert_array_equal(drawn[nu], group.t(toys))
        assert (drawn[nu] != toys.t).any() == moved


def test_the_excess_is_that_of_the_test_which_p_is_of():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    found = observation("observed.h5", 2.0)
    assert found.p == found.result("network").p
    assert "100 events of largest h" in covad.plot.excess(found).get_title(loc="left")
    plt.close("all")
    turned = replace(found, tests=found.tests[::-1])
    with pytest.raises(CovadError, match=r"the test 'convex' of observed\.h5 found no region"):
        covad.plot.excess(turned)


def test_pulls_impacts_and_correlations_are_drawn_on_given_axes_or_refused():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    older = observation("observed.h5", 2.0)
    found = many_nuisances(older, 8)
    for draw in (covad.plot.pulls, covad.plot.impacts, covad.plot.correlations):
        axes = plt.subplots()[1]
        assert draw(found, shown=5, ax=axes) is axes
        assert len(axes.get_yticklabels()) == 5
        with pytest.raises(CovadError, match=r"an observation, from covad\.test is needed"):
            draw("observed.h5")
    plt.close("all")
    for draw in (covad.plot.impacts, covad.plot.correlations):
        with pytest.raises(CovadError, match=r"an answer of this version"):
            draw(older)
    with pytest.raises(CovadError, match=r"fits no nuisances"):
        covad.plot.pulls(replace(older, nuisances=()))


def python_blocks(page: str) -> list[str]:
    text = (Path(__file__).parents[1] / page).read_text()
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def test_snippets_of_the_pages(run, tmp_path, monkeypatch, observed_run):
    """Every line of Python in the README and the reference, with a real run and a real file."""
    rng = np.random.default_rng(1)
    names = {"reference": rng.normal(size=(5000, 3)), "data": rng.normal(size=(1000, 3))}
    (five_lines,) = python_blocks("README.md")
    compare, work_with_a_run = python_blocks("docs/reference/python.md")
    (summary,) = python_blocks("docs/reference/summary.md")
    exec(five_lines, dict(names))
    exec(compare, names)
    path, observed = observed_run
    monkeypatch.chdir(tmp_path)
    Path("RUN").symlink_to(path)
    Path("observed.h5").symlink_to(observed)
    exec(summary, {})
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    exec(work_with_a_run, names)
    plt.close("all")
    assert 0 < names["observation"].p <= 1


def test_the_description_of_the_package_needs_no_file_beside_it():
    """An index shows it alone: a picture or a link to a file of the source tree leads nowhere."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert "covad.compare(reference, data)" in project["readme"]["text"]
    assert not re.search(r"\]\((?!https?://)", project["readme"]["text"])
    tried = [line for line in project["classifiers"] if "Python :: 3" in line]
    assert tried == ["Programming Language :: Python :: 3.11"]
