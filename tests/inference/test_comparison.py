"""`compare`: two samples to a p-value. Statistical checks state their false-alarm rates."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from covad.errors import ComparisonWarning, CovadError
from covad.inference.comparison import compare

#: False-alarm rate of each statistical check below.
ALARM = 1e-4


def mixture(rng, n_events, n_dimensions=3):
    """Two clusters of different width."""
    narrow = rng.random((n_events, 1)) < 0.3
    broad = rng.normal(-0.3, 1.0, (n_events, n_dimensions))
    return np.where(narrow, rng.normal(1.0, 0.6, (n_events, n_dimensions)), broad)


@pytest.fixture
def samples():
    rng = np.random.default_rng(1)
    return mixture(rng, 4000), mixture(rng, 800)


def test_equal_samples_agree_and_a_bump_is_found(samples):
    reference, data = samples
    same = compare(reference, data)
    assert 0.001 < same.p < 0.999
    assert same.z == pytest.approx(norm.isf(same.p))
    bump = np.random.default_rng(2).normal(2.5, 0.2, (40, 3))
    found = compare(reference, np.concatenate([data, bump]))
    assert found.z > 5
    at_bump, in_bulk = found.h([[2.5, 2.5, 2.5], [-0.3, -0.3, -0.3]])
    assert at_bump > in_bulk + 1


def test_the_answer_depends_on_the_seed_alone(samples):
    first, again, other = (compare(*samples, seed=seed) for seed in (3, 3, 4))
    assert (first.t, first.p) == (again.t, again.p)
    assert first.t != other.t


def test_units_do_not_matter(samples):
    reference, data = samples
    scale, shift = np.array([1e-6, 1.0, 1e6]), np.array([1e-3, -5.0, 1e9])
    plain = compare(reference, data)
    scaled = compare(reference * scale + shift, data * scale + shift)
    assert scaled.t == pytest.approx(plain.t, rel=1e-3)


def test_the_yield_counts_only_where_it_is_expected(samples):
    reference, data = samples
    assert compare(reference, data).p > 1e-3
    assert compare(reference, data, expected=len(data) / 2).z > 10
    profiled = compare(reference, data, expected=len(data) / 1.1, normalisation=0.1)
    assert profiled.p > 1e-3
    (normalisation,) = profiled.nuisances
    assert normalisation.fitted == pytest.approx(np.log(1.1) / 0.1 * 0.9, abs=0.2)
    assert compare(reference, data, expected=len(data) / 1.5, normalisation=(0.01, np.log(1.5))).p > 1e-3


def test_weights_are_scaled_to_what_is_expected(samples):
    reference, data = samples
    ones = compare(reference, data, expected=800)
    assert compare(reference, data, expected=800, weights=np.full(len(reference), 7.0)).t == pytest.approx(
        ones.t
    )


def test_a_weighted_reference_has_its_weighted_density():
    rng = np.random.default_rng(5)
    flat, data = rng.uniform(-4, 4, (20_000, 1)), rng.normal(size=(1000, 1))
    right = compare(flat, data, weights=norm.pdf(flat[:, 0]))
    assert right.p > 1e-3
    assert compare(flat, data).z > 10


def test_a_profiled_nuisance_takes_its_effect_away():
    rng = np.random.default_rng(6)
    reference, data = rng.normal(size=(40_000, 2)), rng.normal(size=(8000, 2))
    data[:, 0] *= 1.05  # one standard deviation of a scale known to 5 %

    def response(z):
        return 0.05 * (z[:, 0] ** 2 - 1)

    assert compare(reference, data).z > 1.5
    profiled = compare(reference, data, response=response, measured=1.0)
    assert profiled.z < compare(reference, data).z - 1
    (scale,) = profiled.nuisances
    assert scale.fitted == pytest.approx(1.0, abs=0.5)
    arrays = compare(reference, data, response=(response(reference), response(data)), measured=[1.0])
    assert arrays.t == profiled.t


def test_it_says_how_the_basis_was_chosen(samples):
    reference, data = samples
    result = compare(reference, data)
    assert result.n_reference + result.n_basis == len(reference)
    assert f"{result.bumps} bumps, chosen from {result.n_basis} events" in str(result)
    given = compare(reference, data, basis_events=mixture(np.random.default_rng(9), 1000))
    assert (given.n_reference, given.n_basis) == (len(reference), 1000)


@pytest.mark.parametrize(
    "kind", ["lists", "frames", "float32", "one column", "one dimension", "integers", "booleans"]
)
def test_what_just_works(kind):
    rng = np.random.default_rng(7)
    reference, data = mixture(rng, 3000), mixture(rng, 600)
    if kind == "lists":
        reference, data = reference.tolist(), data.tolist()
    elif kind == "frames":
        names = ["a", "b", "c"]
        reference, data = pd.DataFrame(reference, columns=names), pd.DataFrame(data, columns=names)
        shuffled = compare(reference, data[["c", "a", "b"]])
        assert shuffled.t == compare(reference, data).t
    elif kind == "float32":
        reference, data = reference.astype(np.float32), data.astype(np.float32)
    elif kind == "one column":
        reference, data = reference[:, :1], data[:, :1]
    elif kind == "one dimension":
        reference, data = reference[:, 0], data[:, 0]
    elif kind == "integers":
        reference, data = rng.poisson(4, (3000, 2)), rng.poisson(4, (600, 2))
    elif kind == "booleans":
        reference, data = rng.random((3000, 2)) < 0.3, rng.random((600, 2)) < 0.3
    assert compare(reference, data).p > 1e-3


def with_value(array, value):
    changed = np.array(array)
    changed[17, 1] = value
    return changed


BAD = {
    "NaN in the data": (
        lambda r, d: {"data": with_value(d, np.nan)},
        "the data .* not finite, in row 17, column 1",
    ),
    "infinity in the reference": (
        lambda r, d: {"reference": with_value(r, np.inf)},
        "the reference .* row 17",
    ),
    "other columns": (lambda r, d: {"data": d[:, :2]}, "2 columns, the reference has 3"),
    "other names": (
        lambda r, d: {
            "reference": pd.DataFrame(r, columns=list("abc")),
            "data": pd.DataFrame(d, columns=list("abd")),
        },
        "not those of the reference",
    ),
    "no data": (lambda r, d: {"data": d[:0]}, "the data must be"),
    "three axes": (lambda r, d: {"data": d[None]}, "the data must be"),
    "a number": (lambda r, d: {"reference": 3.0}, "the reference must be"),
    "text": (lambda r, d: {"data": [["a", "b", "c"]]}, "the data must hold real numbers"),
    "ragged": (lambda r, d: {"data": [[1.0, 2.0], [3.0]]}, "the data is not an array of numbers"),
    "complex": (lambda r, d: {"data": d * 1j}, "the data must hold real numbers"),
    "masked": (lambda r, d: {"data": np.ma.masked_greater(d, 1.0)}, "masked"),
    "a constant column": (lambda r, d: {"reference": r * [1, 0, 1]}, "column 1 of the reference is constant"),
    "a constant, far from zero": (lambda r, d: {"reference": r * [1, 0, 1] + 1e5}, "column 1 .* constant"),
    "a tiny reference": (lambda r, d: {"reference": r[:3]}, "3 events"),
    "the same sample": (lambda r, d: {"data": r[:500]}, "500 of 500 data events are events of the reference"),
    "weights of another length": (lambda r, d: {"weights": np.ones(5)}, "as many weights"),
    "a negative weight": (lambda r, d: {"weights": np.where(np.arange(len(r)) == 9, -1, 1)}, "row 9 is -1"),
    "a weight of zero": (lambda r, d: {"weights": np.where(np.arange(len(r)) == 9, 0, 1)}, "row 9 is 0"),
    "a NaN weight": (
        lambda r, d: {"weights": np.where(np.arange(len(r)) == 9, np.nan, 1)},
        "weights .* row 9",
    ),
    "nothing expected": (lambda r, d: {"expected": 0}, "expected must be a positive number"),
    "expected as text": (lambda r, d: {"expected": "many"}, "expected must be a positive number"),
    "an infinite expectation": (lambda r, d: {"expected": np.inf}, "expected must be a positive number"),
    "normalisation alone": (lambda r, d: {"normalisation": 0.1}, "normalisation needs expected"),
    "sigma zero": (lambda r, d: {"expected": 800, "normalisation": 0.0}, "positive sigma"),
    "sigma NaN": (lambda r, d: {"expected": 800, "normalisation": np.nan}, "sigma"),
    "three numbers": (
        lambda r, d: {"expected": 800, "normalisation": (1, 2, 3)},
        "sigma or .sigma, measured.",
    ),
    "measured alone": (lambda r, d: {"measured": [1.0]}, "give their response"),
    "response of one sample": (lambda r, d: {"response": r[:, 0]}, "response is"),
    "short response": (lambda r, d: {"response": (r[:-1], d)}, "rows for"),
    "other nuisances": (lambda r, d: {"response": (r, d[:, :2])}, "3 nuisances, that of the data 2"),
    "NaN in the response": (
        lambda r, d: {"response": lambda z: np.log(z[:, 0] - 100)},
        "response of the reference",
    ),
    "measured too many": (lambda r, d: {"response": (r, d), "measured": [1.0]}, "3 nuisances need as many"),
    "another test": (lambda r, d: {"test": "magic"}, "no test 'magic'"),
    "basis of another space": (lambda r, d: {"basis_events": d[:, :2]}, "basis_events have 2 columns"),
    "a basis of one point": (lambda r, d: {"basis_events": d[[0] * 50]}, "all equal"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore:invalid value encountered in log:RuntimeWarning")
def test_bad_input_ends_in_one_sentence(samples, case):
    reference, data = samples
    change, sentence = BAD[case]
    arguments = {"reference": reference, "data": data} | change(reference, data)
    with pytest.raises(CovadError, match=sentence) as caught:
        compare(**arguments)
    assert "\n" not in str(caught.value)


def cauchy(points):
    return np.tan(np.pi * (norm.cdf(points) - 0.5))


WEAK = {
    "few data": (lambda r, d: (r, d[:50]), "50 data are few"),
    "reference smaller than data": (lambda r, d: (r[:700], d), "fewer than the 800 data"),
    "copied reference": (lambda r, d: (np.concatenate([r, r[:400]]), d), "of the reference rows repeat"),
    "copied data": (lambda r, d: (r, np.concatenate([d, d[:100]])), "of the data rows repeat"),
    "a few shared events": (
        lambda r, d: (r, np.concatenate([d, r[:3]])),
        "3 data events are events of the ref",
    ),
    "data where nothing is expected": (
        lambda r, d: (r, np.concatenate([d, d[:30] + np.array([0, 50, 0])])),
        "data events lie outside the range of the reference in column 1",
    ),
    "heavy tails": (lambda r, d: (cauchy(r), cauchy(d)), "column 0 has heavy tails"),
}


@pytest.mark.parametrize("case", WEAK)
def test_a_weak_law_is_said(samples, case):
    change, sentence = WEAK[case]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = compare(*change(*samples))
    assert [str(w.message) for w in caught if w.category is ComparisonWarning] == list(result.warnings)
    assert any(sentence in warning for warning in result.warnings)


def test_events_of_large_weight_are_named(samples):
    """As after thinning by up to fifty; with such weights 20 % beyond 1 sigma were seen."""
    reference, data = samples
    weights = 1 + np.exp(-reference[:, 0])
    with pytest.warns(ComparisonWarning, match="single reference events stand for up to"):
        compare(reference, data, expected=800, weights=weights)


def test_rows_of_float32_are_not_taken_for_repeated():
    """Trailing zero bits must not make hashes of rows collide."""
    rng = np.random.default_rng(8)
    reference = rng.normal(size=(200_000, 1)).astype(np.float32).astype(np.float64) * 2.0**20
    reference += np.arange(200_000)[:, None]
    from covad.inference.comparison import _row_hashes

    assert len(np.unique(_row_hashes(reference))) == len(np.unique(reference))


def rates_agree(z, alarm):
    """Rates beyond 1 and 2 sigma within two-sided binomial limits; `alarm` is shared by the limits."""
    for sigma in (1, 2):
        found, rate = int((z > sigma).sum()), norm.sf(sigma)
        low, high = binom.ppf([alarm / 4, 1 - alarm / 4], len(z), rate)
        assert low <= found <= high, f"{found} of {len(z)} beyond {sigma} sigma, {low} to {high} allowed"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["shapes", "expected", "normalisation", "nuisance", "weights"])
def test_type_one_error(mode):
    """2000 pairs of equal samples, 600 data and 3000 reference events; false-alarm rate 1e-3 per mode."""
    z = []
    for number in range(2000):
        rng = np.random.default_rng([7, number])
        reference, n_data, options = mixture(rng, 3000), 600, {}
        if mode != "shapes":
            n_data, options["expected"] = rng.poisson(600), 600
        if mode == "normalisation":  # the true yield is 1.5 sigma high
            n_data, options["normalisation"] = rng.poisson(600 * np.exp(0.15)), (0.1, rng.normal(0.15, 0.1))
        data = mixture(rng, n_data)
        if mode == "nuisance":  # the truth is +1.5 sigma: events are kept with a probability that tells
            more = mixture(rng, rng.poisson(1200))
            g = 0.2 * np.tanh(more[:, 0])
            data = more[rng.random(len(more)) < 0.5 * np.exp(1.5 * g)]
            options |= {"response": lambda z: 0.2 * np.tanh(z[:, 0]), "measured": rng.normal(1.5, 1.0)}
        if mode == "weights":  # thinned in one direction, and weighted back
            more = mixture(rng, 6000)
            keep = 0.5 + 0.5 / (1 + np.exp(-more[:, 0]))
            kept = rng.random(6000) < keep
            reference, options["weights"] = more[kept], 1 / keep[kept]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ComparisonWarning)
            z.append(compare(reference, data, seed=number, **options).z)
    rates_agree(np.array(z), alarm=1e-3)
