"""Pools of weighted events: what is kept, what is smoothed, what becomes of equal weight.

Chances of a false alarm are 1e-3 for each check unless stated.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from finished_run import tiny_study
from scipy.stats import ks_2samp, norm

from covad.embedding.embed import Embedded
from covad.errors import NegativeExpectationError
from covad.events.weights import effective_number
from covad.nplm.convex.basis import evaluate
from covad.pipeline.pools import accepted_by_size
from covad.pipeline.weights import PoolMaker
from covad.response.model import ResponseModel, ResponseShape
from covad.runs.models import response_of
from covad.runs.scale import Standardisation
from covad.runs.smoothing import ClosureCheck, SmoothedPool, smoothing_line
from covad.study.plan import reach_convex
from covad.toys import latent_world as latent

CENTRE = (0.0,)
#: Standard deviations that one of four means exceeds once in a thousand times.
FAR = float(norm.isf(0.0005 / 4))


def study(bumps=8, **changes):
    tests = {"convex": {"bumps": bumps}}
    configurations = [{"treatment": "profiled"}]
    return tiny_study(**({"tests": tests, "configurations": configurations} | changes))


def sample(n, seed, kind):
    """Latent events as the encoder would leave them."""
    rng = np.random.default_rng(seed)
    if kind == "signed":
        z, weights = latent.signed_background(n, rng)
    elif kind == "positive":
        z = latent.background(n, rng)
        weights = np.exp(0.5 * np.tanh(z[:, 0].astype(np.float64)))
    else:
        z, weights = latent.background(n, rng), np.full(n, 1.0 if kind == "none" else 0.25)
    return Embedded(3.0 * z + 1.0, np.arange(n), weights, 1.05)


def maker(kind="none", order=1, reference=None, **changes):
    torch.manual_seed(1)
    model = ResponseModel(ResponseShape(n_dimensions=4, n_nuisances=1, order=order, hidden=(8,)))
    scale = Standardisation.of(sample(5_000, 1, "none").z)
    reference = sample(6_000, 3, kind) if reference is None else reference
    where = ("covariant", order)
    return PoolMaker(study(**changes), scale, model, where, sample(2_000, 2, kind), reference)


def made(kind, **changes):
    """A maker that has its basis events and its reference, with both."""
    found = maker(kind, **changes)
    return found, found.basis, found.reference


@pytest.mark.parametrize("kind", ["none", "equal"])
def test_events_that_count_alike_are_taken_as_they_are(kind):
    """The very same arrays as without weights."""
    found, basis, reference = made(kind)
    data = found.equal("data", sample(4_000, 4, kind), CENTRE)
    np.testing.assert_array_equal(basis, found.scale(sample(2_000, 2, "none").z))
    for pool, (n, seed) in ((reference, (6_000, 3)), (data, (4_000, 4))):
        events = sample(n, seed, "none")
        np.testing.assert_array_equal(pool.sample.z, found.scale(events.z))
        np.testing.assert_array_equal(pool.sample.response.linear, response_of(found.model, events.z).linear)
        assert (pool.weights, pool.signed, pool.cost, pool.yield_ratio) == (None, None, None, 1.05)
    assert found.smoothed == []


def test_no_events_are_an_empty_pool():
    found, _, _ = made("none")
    assert len(found.equal("signal", sample(0, 5, "none"), CENTRE)) == 0


def test_positive_weights_stay_with_the_reference_and_data_are_accepted_by_them():
    """Means over data and basis are weighted means; without the weights they are elsewhere."""
    found, basis, reference = made("positive")
    given = sample(6_000, 3, "positive")
    np.testing.assert_array_equal(reference.weights, given.weights)
    np.testing.assert_array_equal(reference.sample.z, found.scale(given.z))
    assert reference.signed is None
    data = found.equal("data", sample(20_000, 4, "positive"), CENTRE)
    assert data.weights is None
    assert (data.cost.events, data.cost.accepted, data.cost.negative) == (20_000, len(data), 0.0)
    assert data.cost.effective == data.cost.effective_signed
    for z, (n, seed) in ((data.sample.z, (20_000, 4)), (basis, (2_000, 2))):
        given = sample(n, seed, "positive")
        wanted = np.average(found.scale(given.z), axis=0, weights=given.weights)
        error = z.std(axis=0) * np.sqrt(1.0 / len(z))
        assert (np.abs(z.mean(axis=0) - wanted) < FAR * error).all()
    assert abs(found.scale(given.z)[:, 0].mean() - wanted[0]) > 5 * error[0]
    assert found.smoothed == []


def test_signed_weights_are_smoothed_so_that_the_test_sees_the_same_sums():
    """Over the bumps that the stage `tune` chooses from the pools, over g, and in all."""
    found, basis, reference = made("signed")
    signed = sample(6_000, 3, "signed").weights
    np.testing.assert_array_equal(reference.signed, signed)
    assert (reference.weights > 0).all()
    tuned = reach_convex(found.study, "").choose(basis, reference.effective_share).basis
    columns = np.column_stack(
        [evaluate(tuned, reference.sample.z), reference.sample.response.linear, np.ones(6_000)]
    ).astype(np.float64)
    errors = np.sqrt(np.square(signed) @ np.square(columns))
    assert np.abs((reference.weights - signed) @ columns / errors).max() < 0.1
    assert np.abs((np.abs(signed) - signed) @ columns / errors).max() > 10


def test_the_record_tells_what_the_smoothing_did():
    found, basis, reference = made("signed")
    data = found.equal("data", sample(8_000, 4, "signed"), (1.0,))
    assert [(pool.pool, pool.nu) for pool in found.smoothed] == [("reference", CENTRE), ("data", (1.0,))]
    told, of_data = found.smoothed
    signed = sample(6_000, 3, "signed").weights
    assert (told.events, told.columns, told.unmatched) == (6_000, 8 + 1 + 1, 0)
    assert told.negative_share == (signed < 0).mean()
    assert told.effective == reference.effective > told.effective_signed == effective_number(signed)
    assert told.largest_residual < 0.1
    assert (told.bumps.functions, told.cells.functions) == (8, 2)  # signed events worth 1300
    assert not told.doubtful
    cost = data.cost
    assert (cost.events, cost.accepted) == (8_000, len(data))
    assert (cost.negative, cost.effective, cost.effective_signed) == (
        of_data.negative_share, of_data.effective, of_data.effective_signed
    )  # fmt: skip
    assert len(basis) < 2_000


def test_the_closure_is_uniform_where_the_smoothing_can_follow():
    """The expectation falls slowly along z0, and eight bumps see it: of 20 samples none is far out."""
    found, _, _ = made("signed")
    for seed in range(20):
        found.equal("data", sample(4_000, 20 + seed, "signed"), CENTRE)
    p = np.array([pool.cells.p for pool in found.smoothed])
    assert p.min() > 1e-3 / len(p)
    assert p.max() > 0.5


def test_accepted_data_have_the_density_of_the_signed_sample():
    found, _, _ = made("signed")
    z = found.equal("data", sample(40_000, 6, "signed"), CENTRE).sample.z
    fresh = found.scale(sample(40_000, 7, "none").z)
    # the smoothed sums fluctuate as those of 40 000 signed events, twice as far as their number says
    assert min(ks_2samp(z[::4, k], fresh[:, k]).pvalue for k in range(4)) > 1e-3 / 4
    unsigned = accepted_by_size(sample(40_000, 6, "signed"), 8)
    assert ks_2samp(found.scale(unsigned)[:, 0], fresh[:, 0]).pvalue < 1e-6, "the control: signs dropped"


def test_a_signed_signal_beside_unweighted_background_is_smoothed_by_the_tests_own_bumps():
    found, _, _ = made("none")
    signal = found.equal("a4l", sample(4_000, 8, "signed"), CENTRE)
    (told,) = found.smoothed
    assert (told.pool, told.columns, told.unmatched) == ("a4l", 8 + 1 + 1, 0)
    assert signal.weights is None
    assert 0 < len(signal) < 4_000


def test_a_network_is_given_finer_bumps_too():
    found, _, _ = made("signed", tests={"convex": {"bumps": 8}, "network": {"clip": 1.5}})
    assert found.smoothed[-1].columns == 8 + 8 + 1 + 1


@pytest.mark.parametrize("kind", ["positive", "signed"])
def test_events_of_weight_zero_are_left_out(kind):
    given = sample(6_000, 3, kind)
    weights = np.where(np.arange(6_000) % 3 == 0, 0.0, given.weights)
    found, _, reference = made(kind, reference=replace(given, weights=weights))
    assert len(reference) == 4_000
    np.testing.assert_array_equal(reference.sample.z, found.scale(given.z[weights != 0]))


def test_a_region_of_negative_expectation_is_one_sentence_that_names_the_pool():
    found, _, _ = made("signed")
    given = sample(6_000, 4, "signed")
    beyond = given.z[:, 0] > 4.0
    weights = np.where(beyond, -np.abs(given.weights), given.weights)
    with pytest.raises(
        NegativeExpectationError,
        match=r"^the pool 'data' at nu = \+1: the bump at z = \(.*weights sum to -",
    ):
        found.equal("data", replace(given, weights=weights), (1.0,))


@pytest.mark.parametrize("n_events", [80, 10, 2, 1])
def test_a_pool_of_fewer_events_than_bumps_is_smoothed_and_checked_as_far_as_it_can_be(n_events):
    """A signal with one negative weight; the tests have 100 bumps."""
    found, _, _ = made("none", bumps=100)
    given = sample(n_events, 12, "none")
    weights = np.where(np.arange(n_events) == 0, -1.0, 2.0)
    weights[-1] = 3.0
    signal = found.equal("a4l", replace(given, weights=weights), CENTRE)
    assert len(signal) <= n_events
    if n_events == 1:  # one event: nothing to smooth
        assert (len(signal), found.smoothed) == (1, [])
        return
    (told,) = found.smoothed
    assert told.events == n_events
    assert told.bumps.functions == n_events // 2 if n_events > 2 else told.bumps.functions <= 1


def test_a_pool_of_copies_of_one_event_is_smoothed_without_a_check_by_bumps():
    found, _, _ = made("none")
    given = sample(40, 12, "none")
    weights = np.where(np.arange(40) == 0, -1.0, 2.0)
    found.equal("a4l", replace(given, z=np.repeat(given.z[:1], 40, axis=0), weights=weights), CENTRE)
    (told,) = found.smoothed
    assert (told.bumps.functions, told.bumps.dof, told.bumps.p) == (0, 0, 1.0)


def test_the_second_order_of_the_response_is_a_column_too():
    found, _, reference = made("signed", order=2, configurations=[{"treatment": "profiled", "order": 2}])
    assert found.smoothed[0].columns == 8 + 1 + 1 + 1
    quadratic = reference.sample.response.quadratic[:, 0, 0].astype(np.float64)
    error = np.sqrt(np.square(reference.signed) @ np.square(quadratic))
    assert abs((reference.weights - reference.signed) @ quadratic) < 0.1 * error


@pytest.mark.parametrize(
    ("name", "nu", "refused"),
    [("data", CENTRE, True), ("data", (1.0,), False), ("prior", CENTRE, False), ("a4l", CENTRE, False)],
)
def test_three_errors_stop_a_run_where_all_depends_on_it_and_more_elsewhere(name, nu, refused):
    """As many negative weights as positive ones, and some more: where bumps are, they sum to -3.7 errors.

    One event far away makes the sum of all positive. In all pools there are some 600 places, where one in a
    thousand samples without any expectation has a sum of -4.8 errors.
    """
    found, _, _ = made("signed")
    given = sample(6_000, 4, "none")
    signs = np.ones(6_000)
    signs[np.random.default_rng(4).permutation(6_000)[: 3_000 + round(1.85 * np.sqrt(6_000))]] = -1.0
    given.z[0], signs[0] = 300.0, 400.0
    if refused:
        with pytest.raises(NegativeExpectationError, match=f"^the pool '{name}' at nu = "):
            found.equal(name, replace(given, weights=signs), nu)
    else:
        assert len(found.equal(name, replace(given, weights=signs), nu)) > 0


@pytest.mark.parametrize("weights", [-1.0, 0.0, np.where(np.arange(500) < 251, -1.0, 1.0)])
@pytest.mark.parametrize("name", ["reference", "a4l"])
def test_weights_without_a_positive_sum_are_refused(name, weights):
    """Weights that are all the same are no less negative for that."""
    given = sample(500, 12, "none")
    bad = replace(given, weights=np.broadcast_to(weights, 500))
    with pytest.raises(
        NegativeExpectationError,
        match=rf"^the pool '{name}': the weights of its 500 events add up to -?\d+, which is no expectation",
    ):
        _ = maker(reference=bad).reference if name == "reference" else maker().equal(name, bad, CENTRE)


def doubtful_pool(p=1e-6, moves=5.0):
    cells = ClosureCheck(functions=64, largest_pull=5.0, chi2=140.0, dof=63, p=p)
    bumps = ClosureCheck(functions=8, largest_pull=0.5, chi2=0.0, dof=0, p=1.0)
    return SmoothedPool("data", (1.0,), 9000, 0.2, 7000.0, 3000.0, 10, 1, 0.12, bumps, cells, moves)


@pytest.mark.parametrize(
    ("p", "moves", "doubtful"), [(1e-6, 5.0, True), (1e-3, 5.0, False), (1e-6, 1.0, False)]
)
def test_a_doubtful_closure_is_a_warning(caplog, p, moves, doubtful):
    """Doubtful is what is no chance and adds more than a tenth of sqrt(2 x 64) = 11.3 to a chi2."""
    found = maker()
    found.smoothed.extend([doubtful_pool(p, moves), doubtful_pool(1.0, -2.0)])
    found.warn("covariant, linear")
    assert len(caplog.messages) == doubtful
    if doubtful:
        assert caplog.messages[0].startswith(
            "covariant, linear: smoothed weights differ from signed ones in 1 of 2 pools, most in 'data' at "
            "nu = +1: by chi2 140 / 63 in cells, which adds 5 to that of data"
        )


def test_an_expectation_that_the_bumps_cannot_follow_is_seen_in_cells():
    """The share of negative weights changes from one 16th of z to the next: eight wide bumps see no such."""
    found, _, _ = made("signed")
    given = sample(60_000, 9, "none")
    p = np.where(np.prod(given.z - np.median(given.z, axis=0), axis=1) > 0, 0.02, 0.4)
    signs = np.where(np.random.default_rng(9).random(60_000) < p, -1.0, 1.0)
    found.equal("data", replace(given, weights=signs), CENTRE)
    assert found.smoothed[-1].cells.p < 1e-4
    assert found.smoothed[-1].moves > 0


def test_one_line_tells_how_well_pools_were_smoothed():
    assert smoothing_line([doubtful_pool(), doubtful_pool(0.3)]) == (
        "negative weights of 2 pools smoothed; sums that tests see are off by at most 0.12 of their errors; "
        "closure: smallest p 1e-06 of 2 checks"
    )
    decided = replace(doubtful_pool(), cells=doubtful_pool().bumps)
    assert smoothing_line([decided]).endswith("closure: nothing was left to check")
