"""Systematics of every kind in one study that is really run: they agree where they do the same.

    pytest -m slow -s tests/calibration/test_kinds.py      # prints all figures

Seeds are fixed. With others, a mean that is right is called wrong once in a thousand times, and so is a chi2.
"""

import sys

import pytest
import yaml
from calibration.kinds import KindsRun, apart, point
from finished_run import one_by_one
from kinds_world import NAMES, write_world
from scipy.stats import norm

from covad.cli.main import main
from covad.inference.verdict import Verdict
from covad.pipeline import checks, encoder, events, pools, response
from covad.results.summary import select
from covad.toys.ensembles import Treatment

#: Chosen before any toy was looked at.
WORLD = 20261118
#: A false alarm of one mean in a thousand.
RARE = float(norm.isf(0.5e-3))
#: Toys that are drawn anew from the pools of the run, for tests with one nuisance.
TOYS = 150
TWINS = [("moved", "weighed"), ("jet_energy_scale", "w_model")]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> KindsRun:
    """A run of the whole study by `covad run`, in this process."""
    folder = tmp_path_factory.mktemp("kinds")
    study = write_world(folder / "files", WORLD)
    (folder / "files" / "study.yaml").write_text(yaml.safe_dump(study))
    command = ["covad", "run", str(folder / "files" / "study.yaml"), "--out", str(folder / "RUN")]
    with pytest.MonkeyPatch.context() as patch:
        for stage in (events, encoder, response, pools, checks):
            patch.setattr(stage, "run_jobs", one_by_one)
        patch.setattr(sys, "argv", [*command, "--workers", "1"])
        main()
    return KindsRun(folder / "RUN")


def told(name, mean):
    return f"{name} {mean.mean:.3f} +- {mean.error:.3f}"


@pytest.mark.slow
def test_the_response_of_a_rate_is_the_probability_of_its_process(kinds):
    found = kinds.of_rate()
    print(
        f"\nttbar: chi2 {found.chi2:.1f} in {found.cells} cells, p {found.p:.3f}; "
        f"{told('slope', found.slope)}; yield {found.yielded:.4f} of the true one"
    )
    # what is left of it, which so many labels can see, must not move t at the study's size
    misfit = kinds.misfit("ttbar_rate")
    assert misfit.high < 0.05
    assert abs(found.slope.mean - 1.0) < 0.05 + RARE * found.slope.error
    assert abs(found.yielded - 1.0) < 0.05


@pytest.mark.slow
def test_a_rate_that_is_high_is_found_and_t_does_not_move(kinds):
    """ttbar is 30 % high: one sigma of its rate."""
    there = point("ttbar_rate")
    fitted = kinds.fitted("ttbar_rate")
    found, expected, error = kinds.found_by_data("ttbar_rate", TOYS)
    profiled = [kinds.t(Treatment.PROFILED, nu) for nu in (point(), there)]
    ignored = [kinds.t(Treatment.NONE, nu) for nu in (point(), there)]
    print(f"\nttbar 30 % high: {told('fitted rate', fitted)}, of 1")
    print(f"  auxiliary values around 0: {told('fitted', found)}, of {expected:.3f}; its error {error:.3f}")
    print(f"  profiled: {told('t at 0', profiled[0])}, {told('at +1', profiled[1])}")
    print(f"  not profiled: {told('t at 0', ignored[0])}, {told('at +1', ignored[1])}")
    assert abs(fitted.mean - 1.0) < RARE * fitted.error
    assert abs(found.mean - expected) < RARE * found.error
    assert found.mean > RARE * found.error  # by the data alone
    assert abs(apart(profiled[1], profiled[0])) < RARE
    assert apart(ignored[1], ignored[0]) > RARE


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), TWINS)
def test_two_kinds_of_the_same_effect_have_the_same_response(kinds, first, second):
    twins = kinds.twins(first, second, kinds.data.study.sizes.expected)
    print(
        f"\n{first} and {second}: N E[g^2] {twins.size:.2f}, of the difference {twins.difference:.3f}, "
        f"by the heads {twins.noise:.3f}; slope {twins.slope:.3f}"
    )
    # the response of a sample that is not matched is a noisy density ratio: its heads say by how much
    assert twins.difference < 5.0 * twins.noise
    if second != "w_model":
        assert twins.difference < 0.1 * twins.size
    for by in (first, second):
        for of in (first, second):
            for nu in (1.0, -1.0):
                found = kinds.predicted(by, of, nu)
                print(
                    f"  response of {by}, events at {nu:+g} of {of}: chi2 {found.chi2:.0f} / {found.dof}, "
                    f"p {found.p_value:.3f}, residual {found.residual_share:.3f}"
                )
                # matched events leave so little noise that chi2 sees what is not linear
                assert found.p_value > 1e-4 or found.residual_share < 0.25


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), TWINS)
def test_two_kinds_of_the_same_effect_give_the_same_t_and_the_same_pulls(kinds, first, second):
    """Each stands for the other: a test that knows one is given toys of the other."""
    for tested in (first, second):
        nominal, at_zero = kinds.t_with_one(tested, None, TOYS)
        print(f"\ntest of {tested}: at 0 {told('t', nominal)}, {told('nu', at_zero)}")
        for true in (first, second):
            t, nu = kinds.t_with_one(tested, true, TOYS)
            ignored = kinds.t(Treatment.NONE, point(true))
            print(f"  toys at +1 of {true}: {told('t', t)}, {told('nu', nu)}; {told('ignored', ignored)}")
            assert abs(apart(t, nominal)) < RARE
            assert abs(nu.mean - 1.0) < RARE * nu.error


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), TWINS)
def test_two_kinds_of_the_same_effect_do_the_same_to_t_if_they_are_left_out(kinds, first, second):
    """As the checks predict without toys, in standard deviations of t."""
    entries = {entry.nuisance: entry for entry in kinds.checks.prior.nuisances}
    one, other = (entries[NAMES.index(name)] for name in (first, second))
    for name, entry in ((first, one), (second, other)):
        out, misfit = entry.left_out, entry.misfit
        print(
            f"\n{name}: information {entry.information:.2f}, left out {out.shift:.3f} [{out.low:.3f}, "
            f"{out.high:.3f}], misfit {misfit.shift:.4f} [{misfit.low:.4f}, {misfit.high:.4f}]"
        )
    assert max(one.left_out.low, other.left_out.low) <= min(one.left_out.high, other.left_out.high)
    if second != "w_model":  # noise of a response adds to its information
        assert other.information == pytest.approx(one.information, rel=0.2)


@pytest.mark.slow
def test_the_study_fails_without_profiling(kinds):
    summary = kinds.run.summary
    verdicts = {}
    for configuration in summary.configurations:
        lines = select(summary.closure, configuration=configuration.configuration)
        verdicts[configuration.treatment] = {line.verdict for line in lines}
        print(f"\n{configuration.label}: {lines[0].verdict}: {lines[0].reason}")
        for line in lines:
            shift = line.median_shift
            rates = ", ".join(f"{rate.rate:.3f} beyond {rate.z_alpha:g}" for rate in line.false_positives)
            print(f"  {line.point}: median {shift.shift:+.2f}; {rates}")
    assert verdicts[Treatment.NONE] == {Verdict.DOES_NOT_CLOSE}
    assert Verdict.DOES_NOT_CLOSE not in verdicts[Treatment.PROFILED]
