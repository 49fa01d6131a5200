import math

import numpy as np
import pytest
from toy_world import Mishap, results, small_ensemble

from covad.errors import DatasetError, PlanError
from covad.nplm.statistic import likelihood_ratio
from covad.toys.ensembles import Block, Treatment
from covad.toys.tests import TunedConvex
from covad.toys.toy import failed_block, run_block, run_toy

TOYS = 20


def test_a_toy_is_what_the_test_says_of_its_dataset():
    ensemble = small_ensemble(nu=(1.0,))
    dataset = ensemble.source.draw(ensemble.draw, ensemble.seeds(3))
    result = likelihood_ratio(dataset, ensemble.test.build(ensemble.source), 0)
    toy = run_toy(ensemble, 3)
    assert toy.t == result.t
    assert (toy.tau, toy.delta) == (result.tau.value, result.delta.value)
    assert toy.nu_tau == tuple(result.tau.nu)
    assert toy.nu_delta == tuple(result.delta.nu)
    assert (toy.nu_norm_tau, toy.nu_norm_delta) == (result.tau.nu_norm, result.delta.nu_norm)
    assert toy.measured == tuple(dataset.measured)
    assert toy.measured_norm == dataset.normalisation.measured
    assert toy.n_data == len(dataset.data)
    assert toy.status == "converged"


def test_a_toy_depends_on_its_index_alone():
    alone = run_toy(small_ensemble(), 7)
    among = run_block(Block(small_ensemble(), 5, 10)).toys[2]
    assert results([alone]) == results([among])


def test_toys_differ_in_everything_random():
    toys = run_block(Block(small_ensemble(), 0, TOYS)).toys
    for name in ("t", "seed", "events", "measured", "measured_norm"):
        assert len({getattr(toy, name) for toy in toys}) == TOYS


def test_without_nuisances_t_is_tau():
    toy = run_toy(small_ensemble(treatment=Treatment.NONE), 0)
    assert toy.t == toy.tau
    assert (toy.delta, toy.nu_delta, toy.measured, toy.measured_norm) == (0.0, (), (), None)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("raise", "ValueError: cannot be fitted"),
        ("fail", "likelihood"),
        ("nan", "not finite"),
        ("minus one", "below Delta"),
    ],
)
def test_a_failed_fit_has_a_reason_and_no_number(kind, reason):
    toys = run_block(Block(small_ensemble(Mishap(kind)), 0, TOYS)).toys
    odd = [toy for toy in toys if toy.n_data % 2]
    assert 0 < len(odd) < TOYS
    for toy in toys:
        assert toy.failed == (toy in odd)
        assert (toy.t is None) == (toy in odd)
    for toy in odd:
        assert reason in toy.reason
        assert (toy.tau, toy.delta, toy.nu_tau) == (None, None, None)


def test_the_other_toys_do_not_notice():
    good = run_block(Block(small_ensemble(), 0, TOYS)).toys
    mixed = run_block(Block(small_ensemble(Mishap("raise")), 0, TOYS)).toys
    assert [m.t for m in mixed if not m.failed] == [g.t for g in good if g.n_data % 2 == 0]


def test_an_unconverged_fit_keeps_its_number_and_says_so():
    toys = run_block(Block(small_ensemble(Mishap("budget")), 0, TOYS)).toys
    statuses = {toy.status for toy in toys if toy.n_data % 2}
    assert statuses == {"unconverged"}
    assert all(math.isfinite(toy.t) for toy in toys)


def test_a_toy_without_data_is_a_failed_toy():
    toys = run_block(Block(small_ensemble(expected=0.01), 0, 5)).toys
    assert [toy.status for toy in toys] == ["failed"] * 5
    assert "DatasetError" in toys[0].reason


def test_a_plan_that_cannot_be_drawn_ends_the_run():
    with pytest.raises(PlanError):
        run_toy(small_ensemble(response_order=2), 0)
    with pytest.raises(DatasetError):
        run_toy(small_ensemble(TunedConvex(bumps=5, capacity=4.0, spread=1e-3)), 0)


def test_a_lost_block_is_failed_toys():
    toys = failed_block(Block(small_ensemble(), 10, 15), "killed").toys
    assert [toy.index for toy in toys] == list(range(10, 15))
    assert all(toy.failed and toy.reason == "killed" and toy.t is None for toy in toys)
    assert toys[0].seed == run_toy(small_ensemble(), 10).seed


def test_time_is_accounted_for():
    toy = run_toy(small_ensemble(), 0)
    assert toy.seconds > 0
    assert toy.draw_seconds > 0
    assert np.isfinite([toy.seconds, toy.draw_seconds]).all()
