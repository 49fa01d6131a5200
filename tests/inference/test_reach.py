"""The closure reach: its algebra, the coverage of its interval, and toys of the convex test."""

from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps

from covad.errors import InferenceError
from covad.inference.misfit import MatchedEvents, Misfit
from covad.inference.prior_average import Measurement, PriorAverage
from covad.inference.reach import GrowingTest, Reach, closure_reach
from covad.inference.shifts import PredictedShift, ScalableNull, predicted_shift, yield_part
from covad.nplm.convex.convex import ConvexProblem, columns
from covad.nplm.convex.law import ScoreMoments, analytic_null
from covad.nplm.dataset import Response
from covad.nplm.likelihood import ColumnLikelihood, GaussianPenalty
from covad.nplm.maximise import maximise
from covad.nplm.statistic import likelihood_ratio
from covad.response.grid import all_pairs, response_grid
from covad.toys import latent_world as latent

NU = 3.0
AXIS = (1.0, -1.0, 2.0, -2.0)
EXPECTED = 4000.0


class World:
    """The latent world with a response that is damped where z_0 > 0."""

    def __init__(self, damping: float, expected: float = EXPECTED) -> None:
        self.damping = damping
        self.toys = latent.LatentWorld(n_reference=int(5.2 * expected), expected=expected)
        pool = latent.background(20_000, np.random.default_rng(1))
        self.test = bumps(pool, 30, seed=1)

    def response(self, z: np.ndarray) -> np.ndarray:
        g = latent.response(z).copy()
        g[z[:, 0] > 0] *= self.damping
        return g

    def columns(self, z: np.ndarray) -> np.ndarray:
        return columns(self.test.basis, z, Response(self.response(z)), normalisation=True)

    def log_ratio(self, z: np.ndarray, nu: float = NU) -> np.ndarray:
        return nu * self.response(z)[:, 0].astype(np.float64)

    def true_ratio(self, z: np.ndarray, nu: float = NU) -> np.ndarray:
        return np.exp(nu * latent.response(z)[:, 0].astype(np.float64))

    def matched(self, n: int, seed: int, points: tuple[float, ...] = (NU,)) -> dict[tuple[float], Misfit]:
        """Events matched to themselves, the shift being a weight variation."""
        z = latent.background(n, np.random.default_rng(seed))
        x = self.columns(z)
        return Misfit.matched(
            [
                {
                    (nu,): MatchedEvents(x, x, self.log_ratio(z, nu), shifted_weights=self.true_ratio(z, nu))
                    for nu in points
                }
            ]
        )

    def misfit(self, n: int, seed: int) -> Misfit:
        return self.matched(n, seed)[(NU,)]

    def unmatched(self, n: int, seed: int) -> Misfit:
        """From independent samples, which fluctuate apart."""
        rng = np.random.default_rng(seed)
        z, shifted = latent.background(n, rng), latent.tilted_background(n, np.array([NU]), rng)
        yield_ratio = float(self.true_ratio(latent.background(400_000, rng)).mean())
        model = self.columns(z) * np.exp(self.log_ratio(z))[:, None]
        there = yield_ratio * self.columns(shifted)
        noise = np.concatenate([(x - x.mean(axis=0)) / len(x) for x in (model, there)])
        return Misfit(there.mean(axis=0) - model.mean(axis=0), noise, n)

    def null(self, nu: float = NU) -> ScalableNull:
        z = latent.background(50_000, np.random.default_rng(2))
        problem = ConvexProblem.of(self.test, self.toys.toy(np.random.default_rng(0)))
        return ScalableNull.of(
            self.columns(z),
            self.log_ratio(z, nu),
            problem.ridge,
            problem.auxiliary.precision,
            problem.n_basis,
        )

    def measurement(self, n: int, seed: int) -> Measurement:
        nulls = {(nu,): self.null(nu) for nu in (0.0, *AXIS)}
        return Measurement(self.matched(n, seed, AXIS), nulls)

    def asimov_t(self, expected: float, nu: float = NU) -> float:
        """t of a dataset that is its own expectation at nu: the shift to all orders, without the noise."""
        z = latent.background(50_000, np.random.default_rng(2))
        x, null = self.columns(z).astype(np.float64), self.null(nu)
        weights = np.full(len(z), expected / len(z))
        sums = (weights * self.true_ratio(z, nu)) @ x
        centre = np.zeros(x.shape[1])
        centre[null.n_basis] = nu
        nuisances = slice(null.n_basis, None)
        with_h = maximise(
            ColumnLikelihood(x, weights, sums, GaussianPenalty(centre, null.auxiliary + null.ridge)), centre
        )
        without = maximise(
            ColumnLikelihood(
                x[:, nuisances],
                weights,
                sums[nuisances],
                GaussianPenalty(centre[nuisances], null.auxiliary[nuisances]),
            ),
            centre[nuisances],
        )
        return 2.0 * (with_h.value - without.value) + float(null.ridge @ np.square(with_h.theta))

    def t(self, nu: float | None, n_toys: int, seed: int) -> np.ndarray:
        """t of toys at nu, or with a nu of its own from the prior for each of them."""
        return np.array([self.one_t(nu, np.random.default_rng([seed, i])) for i in range(n_toys)])

    def one_t(self, nu: float | None, rng: np.random.Generator) -> float:
        toy = self.toys.toy(rng, rng.standard_normal() if nu is None else nu)
        toy = replace(
            toy,
            reference_response=Response(self.response(toy.reference)),
            data_response=Response(self.response(toy.data)),
        )
        return likelihood_ratio(toy, self.test, 0).t


EXACT, SLIGHTLY_WRONG, WRONG = (World(damping) for damping in (1.0, 0.8, 0.3))


def reach_of(misfit: Misfit, null: ScalableNull, level: float = 0.68) -> Reach:
    return closure_reach(lambda n: predicted_shift(misfit, null, n, level), misfit.n_events, EXPECTED)


def test_the_null_scales_to_that_of_a_dataset():
    at = EXACT.null().at(EXPECTED)
    sample = EXACT.toys.toy(np.random.default_rng(3))
    expected = analytic_null(EXACT.test, sample, nu=np.array([NU, 0.0]))
    # two samples of the same moments: 50 000 and 20 800 events
    assert at.law.mean == pytest.approx(expected.law.mean, rel=0.01)
    assert at.law.std == pytest.approx(expected.law.std, rel=0.01)


def test_a_yield_that_is_missing_moves_t_by_what_the_normalisation_does_not_absorb():
    """A constant in h and one of width sigma: the mean of t moves by N d^2 / (1 + N sigma^2)."""
    sigma, n_events, missing = 0.005, 50_000, 0.0111
    null = ScalableNull.of(
        np.ones((100, 2), np.float32), np.zeros(100), np.zeros(2), np.array([0.0, sigma**-2]), n_basis=1
    )
    misfit = Misfit(np.full(2, missing), np.zeros((2, 2)), 100)
    found = predicted_shift(yield_part(misfit, null, 0), null, n_events)
    moved = n_events * missing**2 / (1.0 + n_events * sigma**2)
    assert found.shift * found.null_std == pytest.approx(moved)
    # 0.29 standard deviations of a test with 45 degrees of freedom
    assert moved / np.sqrt(90.0) == pytest.approx(0.29, abs=0.005)


def test_the_misfit_of_a_response_without_its_yield_is_that_of_the_yield():
    """A response less a constant has the shapes right: all of its misfit is the part of the yield."""
    world = EXACT
    z = latent.background(50_000, np.random.default_rng(5))
    x, f = world.columns(z), world.log_ratio(z) - 0.02
    nu = (1.0,)
    misfit = Misfit.matched([{nu: MatchedEvents(x, x, f, shifted_weights=world.true_ratio(z))}])[nu]
    full = world.null()
    null = replace(full, per_event=ScoreMoments.of(x, np.full(len(z), 1 / len(z)), np.exp(f)))
    constant = world.test.basis.n_ridged
    part = yield_part(misfit, null, constant)
    np.testing.assert_allclose(part.delta, misfit.delta, rtol=1e-4, atol=1e-7)
    assert part.delta[constant] / null.per_event.information[constant, constant] == pytest.approx(
        np.expm1(0.02), rel=1e-6
    )


def test_an_exact_response_reaches_to_infinity():
    reach = reach_of(EXACT.unmatched(50_000, seed=4), EXACT.null(), level=0.95)
    # a false alarm, an upper end below infinity, has probability 2.5 %, and this seed is not chosen
    assert reach.interval.high is None
    assert 1000 < reach.interval.low < 1e9
    perfect = reach_of(EXACT.misfit(5_000, seed=4), EXACT.null())
    assert perfect.n_events is None
    assert perfect.interval.low == 1e9


def test_matched_and_unmatched_samples_agree_and_matched_ones_know_better():
    null = WRONG.null()
    matched = predicted_shift(WRONG.misfit(50_000, seed=5), null, EXPECTED)
    unmatched = predicted_shift(WRONG.unmatched(50_000, seed=6), null, EXPECTED)
    error = 0.5 * (unmatched.high - unmatched.low)
    assert abs(matched.shift - unmatched.shift) < 4 * error
    assert matched.high - matched.low < 0.2 * (unmatched.high - unmatched.low)


def test_the_predicted_shift_is_that_of_toys():
    predicted = predicted_shift(WRONG.misfit(50_000, seed=7), WRONG.null(), EXPECTED)
    nominal, shifted = WRONG.t(0.0, 120, seed=1), WRONG.t(NU, 120, seed=2)
    found = (shifted.mean() - nominal.mean()) / predicted.null_std
    error = np.hypot(nominal.std(), shifted.std()) / np.sqrt(120) / predicted.null_std
    # toys follow the exact shift: four standard errors
    assert found == pytest.approx(WRONG.asimov_t(EXPECTED) / predicted.null_std, abs=4 * error)
    assert found > 3 * error


@pytest.mark.parametrize(
    ("world", "expected", "excess"), [(WRONG, EXPECTED, 0.06), (SLIGHTLY_WRONG, 36_000, 0.02)]
)
def test_second_order_is_enough_where_the_misfit_is_small(world, expected, excess):
    """What the second order overestimates, against the exact Asimov fit; see docs/explanation/response.md."""
    predicted = predicted_shift(world.misfit(50_000, seed=2), world.null(), expected)
    exact = world.asimov_t(expected) / predicted.null_std
    print(f"damping {world.damping}, {expected:.0f} events: {predicted.shift:.3f}, exact {exact:.3f}")
    assert predicted.shift / exact - 1.0 == pytest.approx(excess, abs=0.01)


@pytest.mark.slow
def test_toys_at_the_reach_are_shifted_by_a_quarter():
    """Two minutes of one core; the figures stand in docs/explanation/response.md."""
    reach = reach_of(SLIGHTLY_WRONG.misfit(400_000, seed=20), SLIGHTLY_WRONG.null())
    world = World(SLIGHTLY_WRONG.damping, expected=reach.n_events)
    nominal, shifted = world.t(0.0, 400, seed=21), world.t(NU, 400, seed=22)
    null = world.null().at(reach.n_events).law
    found = (shifted.mean() - nominal.mean()) / null.std
    error = np.hypot(nominal.std(), shifted.std()) / np.sqrt(400) / null.std
    print(f"reach {reach.n_events:.0f} {reach.interval}; toys are shifted by {found:.3f} +- {error:.3f}")
    print(f"null: {null.mean:.1f} +- {null.std:.1f}, toys {nominal.mean():.1f} +- {nominal.std():.1f}")
    assert found == pytest.approx(0.25, abs=4 * error)


def test_a_smaller_misfit_reaches_further():
    near, far = (reach_of(world.misfit(30_000, seed=8), world.null()) for world in (WRONG, SLIGHTLY_WRONG))
    assert near.interval.high < far.interval.low
    # delta is 3.5 times smaller, its square 12 times; the nuisances absorb more at larger N
    assert 12 < far.n_events / near.n_events < 200
    at_reach = predicted_shift(SLIGHTLY_WRONG.misfit(30_000, seed=8), SLIGHTLY_WRONG.null(), far.n_events)
    assert at_reach.shift == pytest.approx(0.25, rel=1e-3)


def test_a_wrong_yield_is_absorbed_by_its_nuisance():
    null = EXACT.null()
    delta = 0.02 * null.per_event.information[:, -1]  # 2 % of the mean of every column
    misfit = Misfit(delta, np.zeros((len(delta), len(delta))), 1000)
    known = null.auxiliary.copy()
    known[-1] = 1e12
    fixed = predicted_shift(misfit, replace(null, auxiliary=known), EXPECTED).shift
    # with the yield known, the shift is N * 0.02^2 = 1.6 units of t; the ridge does not touch the constant
    assert fixed * null.at(EXPECTED).law.std == pytest.approx(1.6, rel=0.1)
    assert 0.0 <= predicted_shift(misfit, null, EXPECTED).shift < 0.2 * fixed


@pytest.mark.parametrize("direction", ["none", "loud", "quiet", "mixed"])
def test_the_interval_covers_whatever_the_direction_of_the_misfit(direction):
    rng = np.random.default_rng(9)
    null, delta, noise = small_problem(rng, direction)
    truth = shift_of(null, delta)
    drawn = rng.multivariate_normal(delta, noise.T @ noise, size=300)
    results = {
        level: [predicted_shift(Misfit(d, noise, 1000), null, EXPECTED, level) for d in drawn]
        for level in (0.68, 0.95)
    }
    for level, shifts in results.items():
        covered = np.mean([s.low <= truth <= s.high for s in shifts])
        # the matched chi2 is approximate: five points of slack beside four standard errors
        assert covered > level - 0.05 - 4 * np.sqrt(level * (1 - level) / 300)
    mean = np.mean([s.shift for s in results[0.68]])
    error = np.std([s.shift for s in results[0.68]]) / np.sqrt(300)
    assert mean == pytest.approx(truth, abs=4 * error)  # the bias of the noise is gone


def small_problem(rng: np.random.Generator, direction: str) -> tuple[ScalableNull, np.ndarray, np.ndarray]:
    """Twelve independent columns, of which the last two are nuisances, and noise that is unequal."""
    x = rng.normal(size=(20_000, 12)).astype(np.float32)
    ridge, auxiliary = np.r_[np.full(10, 50.0), np.zeros(2)], np.r_[np.zeros(10), 1.0, 100.0]
    null = ScalableNull.of(x, np.zeros(len(x)), ridge, auxiliary, n_basis=10)
    sizes = np.geomspace(1.0, 0.1, 12) * 0.01
    delta = {"none": np.zeros(12), "loud": 0.04 * np.eye(12)[0], "quiet": 0.04 * np.eye(12)[9]}.get(
        direction, np.full(12, 0.01)
    )
    return null, delta, np.diag(sizes)


def shift_of(null: ScalableNull, delta: np.ndarray) -> float:
    at = null.at(EXPECTED)
    return float(EXPECTED**2 * delta @ at.form @ delta / at.law.std)


def test_a_sample_that_fluctuates_low_takes_no_credit():
    null, _, noise = small_problem(np.random.default_rng(10), "none")
    lucky, typical = (reach_of(Misfit(size * np.diag(noise), noise, 1000), null) for size in (0.01, 0.8))
    assert lucky.n_events is None
    assert lucky.interval.low is not None
    assert lucky.interval.low < 3 * typical.interval.low


def polynomial_misfits(rng: np.random.Generator, k: int, n_columns: int) -> dict[tuple[float, ...], Misfit]:
    """Misfits delta(nu) = nu_k delta_k + 1/2 nu_k nu_l delta_kl on the response's grid, without noise."""
    first, second = rng.normal(size=(k, n_columns)), rng.normal(size=(k, k, n_columns))
    second = 0.5 * (second + second.transpose(1, 0, 2))

    def delta(nu: np.ndarray) -> np.ndarray:
        return 0.01 * (nu @ first + 0.5 * np.einsum("k,l,klc->c", nu, nu, second))

    points = [*response_grid(k, all_pairs(k)), *map(tuple, gauss_hermite(k)[0].tolist())]
    return {nu: Misfit(delta(np.array(nu)), np.zeros((2, n_columns)), 1000) for nu in points}


def gauss_hermite(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights that integrate polynomials of up to nine powers of each nu_k over the prior."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    grid = np.stack(np.meshgrid(*[nodes] * k, indexing="ij"), axis=-1).reshape(-1, k)
    products = np.stack(np.meshgrid(*[weights / weights.sum()] * k, indexing="ij"), axis=-1)
    return grid, products.reshape(-1, k).prod(axis=1)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_average_over_the_prior_is_its_integral(k):
    rng = np.random.default_rng(40 + k)
    null, _, _ = small_problem(rng, "none")
    misfits = polynomial_misfits(rng, k, 12)
    points, weights = gauss_hermite(k)
    integral = sum(
        weight * predicted_shift(misfits[tuple(nu)], null, EXPECTED).shift
        for nu, weight in zip(points.tolist(), weights, strict=True)
    )
    grid = response_grid(k, all_pairs(k))
    measured = Measurement({nu: misfits[nu] for nu in grid}, dict.fromkeys([(0.0,) * k, *grid], null))
    assert measured.averaged(EXPECTED).shift == pytest.approx(integral, rel=1e-9)
    axes_alone = PriorAverage.over(grid).weights @ [
        predicted_shift(misfits[nu], null, EXPECTED).shift for nu in grid
    ]
    assert (axes_alone == pytest.approx(integral, rel=1e-9)) == (k == 1)  # pairs of nuisances add to it


def test_the_form_of_the_average_is_not_negative():
    for k in (2, 3, 4):
        average = PriorAverage.over(response_grid(k, all_pairs(k)))
        lowest = np.linalg.eigvalsh(np.diag(average.weights) + average.mixed)[0]
        assert lowest > -1e-12  # a misfit never lowers t, along no combination of nu


def test_the_average_needs_all_its_points():
    with pytest.raises(InferenceError, match=r"needs the misfit at nu = \(-0\.0, -2\.0\)"):
        PriorAverage.over([nu for nu in response_grid(2) if nu != (0.0, -2.0)])


def test_two_nuisances_need_no_corners():
    """Where one exists on one side, or the study asks for no mixed term, the average goes without it."""
    for cross, sizes in (((), None), ((), [(1.0, -1.0, 2.0, -2.0), (1.0,)])):
        average = PriorAverage.over(response_grid(2, cross, sizes))
        alone = PriorAverage.over(response_grid(1))
        assert average.weights[:4] == pytest.approx(alone.weights)
        assert np.linalg.eigvalsh(np.diag(average.weights) + average.mixed)[0] > -1e-12


@pytest.mark.parametrize(("k", "direction"), [(1, "none"), (1, "mixed"), (2, "none"), (2, "mixed")])
def test_the_average_has_its_noise_subtracted_and_its_interval_covers(k, direction):
    """All nu are measured on the same events: their noise is common to a large part, as here."""
    rng = np.random.default_rng(50 + k)
    null, delta, noise = small_problem(rng, direction)
    grid = response_grid(k, all_pairs(k))
    nulls = dict.fromkeys([(0.0,) * k, *grid], null)
    noises = {nu: sum(nu) * noise + 0.3 * sum(np.square(nu)) * rng.permutation(noise, axis=1) for nu in grid}
    rows = np.concatenate([noises[nu] for nu in grid], axis=1)
    truths = np.concatenate([(sum(nu) + 0.2 * sum(np.square(nu))) * delta for nu in grid])

    def shift(deltas: np.ndarray, rows: np.ndarray, level: float = 0.68) -> PredictedShift:
        parts = zip(grid, np.split(deltas, len(grid)), np.split(rows, len(grid), axis=1), strict=True)
        return Measurement({nu: Misfit(d, n, 1000) for nu, d, n in parts}, nulls).averaged(EXPECTED, level)

    truth = shift(truths, np.zeros_like(rows)).shift
    drawn = rng.multivariate_normal(truths, rows.T @ rows, size=300)
    for level in (0.68, 0.95):
        shifts = [shift(d, rows, level) for d in drawn]
        covered = np.mean([s.low <= truth <= s.high for s in shifts])
        # the matched chi2 is approximate: five points of slack beside four standard errors
        assert covered > level - 0.05 - 4 * np.sqrt(level * (1 - level) / 300)
    found = np.array([s.shift for s in shifts])
    assert found.mean() == pytest.approx(truth, abs=4 * found.std() / np.sqrt(300))


def test_the_average_of_a_wrong_response_is_that_of_asimov_data():
    predicted = WRONG.measurement(50_000, seed=2).averaged(EXPECTED)
    # three points, 0 and +-sqrt(3), integrate up to the fifth power: other nu than those that were measured
    nodes = (np.sqrt(3.0), -np.sqrt(3.0))
    exact = sum(WRONG.asimov_t(EXPECTED, nu) for nu in nodes) / 6 / predicted.null_std
    assert predicted.low < predicted.shift < predicted.high
    # second order in the misfit, as above
    assert predicted.shift == pytest.approx(exact, rel=0.06)


class Growing:
    """Tests of which the one for n events sees a misfit of size n^power; says for which n they were made."""

    def __init__(self, power: float, usual: float, most: float = 1e8) -> None:
        self.null, self.delta, noise = small_problem(np.random.default_rng(60), "mixed")
        self.noise, self.power, self.made = 0.01 * noise, power, []
        self.test = GrowingTest(self.measure, usual, most)

    def measure(self, n_events: float) -> Measurement:
        self.made.append(n_events)
        misfit = Misfit(0.3 * n_events**self.power * self.delta, self.noise, 1000)
        return Measurement(
            {(nu,): misfit for nu in AXIS}, dict.fromkeys([(0.0,), *((x,) for x in AXIS)], self.null)
        )


def test_a_test_grows_with_the_data():
    growing = Growing(power=-0.05, usual=2000.0)
    reach = growing.test.reach_at((1.0,)).n_events
    assert growing.made == [2000.0, 200_000.0]
    fixed = Growing(power=0.0, usual=2000.0)
    constant = Measurement(
        {(1.0,): Misfit(0.3 * reach**-0.05 * fixed.delta, fixed.noise, 1)}, {(1.0,): fixed.null}
    )
    # two tests per factor 100, interpolated: what a test of its own for this size would have said
    assert constant.at((1.0,), reach).shift == pytest.approx(0.25, rel=0.03)
    fixed_reach = fixed.test.reach_at((1.0,)).n_events
    assert reach > 1.5 * fixed_reach


def test_a_test_shrinks_where_the_reach_is_short_and_ends_where_studies_end():
    short = Growing(power=0.0, usual=1e7)
    assert short.test.reach_at((1.0,)).n_events == pytest.approx(
        Growing(power=0.0, usual=2000.0).test.reach_at((1.0,)).n_events, rel=1e-3
    )
    assert min(short.made) == pytest.approx(1e3)
    largest = Growing(power=0.0, usual=1e4, most=1.5e6)
    largest.test.predicted(lambda measured, n: measured.at((1.0,), n), 1e8)
    assert largest.made == [1.5e6]


@pytest.mark.parametrize("usual", [200.0, 1234.5, 10_000.0])
def test_a_shift_that_jumps_where_the_test_is_chosen_anew_has_a_reach(usual):
    """log and exp moved the end of the search across the jump, and it ended in a traceback."""

    def jumps(n: float) -> PredictedShift:
        shift = 1.0 if n > usual else 0.0
        return PredictedShift(n, shift=shift, low=shift, high=shift, null_std=1.0)

    assert closure_reach(jumps, 1000, usual).n_events == pytest.approx(usual, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("expected", "toys"), [(3_000.0, 600), (40_000.0, 120)])
def test_toys_of_the_prior_are_shifted_as_predicted_within_the_reach_and_beyond(expected, toys):
    """Two minutes of one core; the figures stand in docs/explanation/response.md."""
    measured = WRONG.measurement(400_000, seed=30)
    reach = closure_reach(measured.averaged, measured.fresh_events, EXPECTED)
    assert 9_000 < reach.n_events < 12_000
    predicted = measured.averaged(expected)
    world = World(WRONG.damping, expected)
    nominal, thrown = world.t(0.0, toys, seed=31), world.t(None, toys, seed=32)
    found = (thrown.mean() - nominal.mean()) / predicted.null_std
    error = np.hypot(nominal.std(), thrown.std()) / np.sqrt(toys) / predicted.null_std
    print(f"reach {reach.n_events:.0f} {reach.interval}; {expected:.0f} events: toys are shifted by")
    ends = f"[{predicted.low:.3f}, {predicted.high:.3f}]"
    print(f"{found:.3f} +- {error:.3f}, predicted {predicted.shift:.3f} {ends}")
    assert found == pytest.approx(predicted.shift, abs=4 * error)
    assert (predicted.shift > 0.25) == (expected > reach.n_events)
    if expected > reach.n_events:
        assert found > 3 * error


def test_a_null_with_weights_is_that_of_repeated_events():
    """Its score has the information of the density; a weighted reference fluctuates as a smaller one."""
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.normal(size=(3000, 3)), np.ones(3000)]).astype(np.float32)
    f, ridge, number = 0.1 * rng.normal(size=3000), np.ones(4), rng.integers(1, 5, 3000)

    def null(x: np.ndarray, f: np.ndarray, density: np.ndarray | None) -> ScalableNull:
        return ScalableNull.of(x, f, ridge, np.zeros(4), 4, density=density)

    plain, ones = null(x, f, None), null(x, f, np.full(3000, 7.0))
    assert ones.per_event.information == pytest.approx(plain.per_event.information)
    assert ones.per_event.reference_variance == pytest.approx(plain.per_event.reference_variance)
    repeated = null(np.repeat(x, number, axis=0), np.repeat(f, number), None)
    weighted = null(x, f, 1.0 * number)
    assert weighted.per_event.information == pytest.approx(repeated.per_event.information)
    effective = number.sum() ** 2 / (number**2).sum() / 3000
    # the weights do not depend on x: 3000 events, five standard errors
    assert np.diag(weighted.per_event.reference_variance)[:3] == pytest.approx(
        np.diag(plain.per_event.reference_variance)[:3] / effective, rel=5 * np.sqrt(4 / 3000)
    )
    assert weighted.at(1000.0).law.mean > repeated.at(1000.0).law.mean
    for bad in (np.where(number > 1, 1.0, -1.0), np.zeros(3000)):
        with pytest.raises(InferenceError, match="positive weights"):
            null(x, f, bad)


def test_a_test_without_a_nuisance_keeps_the_measurements_of_the_others():
    """A correlation with what is dropped must not narrow them."""
    x = np.random.default_rng(3).normal(size=(500, 4)).astype(np.float32)
    correlation = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.0], [0.2, 0.0, 1.0]])
    precision = np.pad(np.linalg.inv(correlation), (1, 0))
    tied = ScalableNull.of(x, np.zeros(500), np.zeros(4), precision, n_basis=1).without(2)
    left = np.pad(np.linalg.inv(correlation[np.ix_([0, 2], [0, 2])]), (1, 0))
    np.testing.assert_allclose(tied.auxiliary, left, atol=1e-12)
    independent = ScalableNull.of(x, np.zeros(500), np.zeros(4), np.array([0.0, 1.0, 1.0, 1.0]), n_basis=1)
    same = ScalableNull.of(x, np.zeros(500), np.zeros(4), np.diag([0.0, 1.0, 1.0, 1.0]), n_basis=1)
    assert same.without(2).at(100.0).law.mean == pytest.approx(independent.without(2).at(100.0).law.mean)
