"""Families of convex tests, and single ones, against Newton's method in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from convex_world import Precomputed, bumps, trusted_tau

from covad.errors import DatasetError
from covad.nplm.convex.basis import GaussianBasis, StackedBasis
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.family import ConvexFamily
from covad.nplm.dataset import Dataset, Normalisation, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import fit_nuisances
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

POOL = latent.background(5_000, np.random.default_rng(1))
BASIS = GaussianBasis.from_pool(POOL, 40, 2)
WORLD = LatentWorld(n_reference=6_000, expected=2_000.0)
#: Wide and narrow, the same bumps with two ridges, centres that are nested, and all of them in one ridge.
PARTS = (
    replace(BASIS, centres=BASIS.centres[:15], width=3.0),
    replace(BASIS, width=1.5),
    replace(BASIS, centres=BASIS.centres[:30], width=1.5),
    replace(BASIS, width=0.6),
)
TESTS = (
    ConvexTest.with_prior(PARTS[0], POOL, 3.0),
    ConvexTest.with_prior(PARTS[1], POOL, 3.0),
    ConvexTest.with_prior(PARTS[1], POOL, 10.0),
    ConvexTest.with_prior(PARTS[2], POOL, 10.0),
    ConvexTest.with_prior(StackedBasis((PARTS[0], PARTS[3])), POOL, 10.0),
)


def with_quadratic(dataset: Dataset) -> Dataset:
    def bent(response: Response) -> Response:
        g = response.linear
        return Response(g, 0.3 * g[:, :, None] * g[:, None, :])

    return replace(
        dataset,
        reference_response=bent(dataset.reference_response),
        data_response=bent(dataset.data_response),
    )


def with_weights(dataset: Dataset) -> Dataset:
    uneven = np.random.default_rng(8).gamma(0.5, size=len(dataset.weights)) + 1e-3
    return replace(dataset, weights=dataset.weights * uneven / uneven.mean())


def toy(kind: str) -> Dataset:
    world = replace(WORLD, n_nuisances={"ten nuisances": 10, "correlated": 2, "quadratic": 2}.get(kind, 1))
    expected_signal = {"signal": 80.0, "strong signal": 1_000.0}.get(kind, 0.0)
    dataset = world.toy(np.random.default_rng(3), expected_signal=expected_signal)
    match kind:
        case "correlated":
            return replace(dataset, correlation=np.array([[1.0, 0.9], [0.9, 1.0]]))
        case "free yield":
            return replace(dataset, normalisation=Normalisation(np.inf))
        case "known yield":
            return replace(dataset, normalisation=None)
        case "quadratic":
            return with_quadratic(dataset)
        case "weights":
            return with_weights(dataset)
        case _:
            return dataset


KINDS = (
    "null",
    "signal",
    "strong signal",
    "ten nuisances",
    "correlated",
    "free yield",
    "known yield",
    "quadratic",
    "weights",
)


@pytest.fixture(autouse=True)
def estimated_curvature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the curvature be an estimate, as it is for larger datasets."""
    monkeypatch.setattr("covad.nplm.likelihood.FEWEST_EVENTS", 1_500)


@pytest.mark.parametrize("kind", KINDS)
def test_maxima_are_those_of_newton_in_float64(kind: str) -> None:
    """Alone and as a family, with a strong ridge and a weak one."""
    dataset = toy(kind)
    null = fit_nuisances(dataset)
    fits = ConvexFamily.of(TESTS).fit(dataset, null)
    for member, (test, fit) in enumerate(zip(TESTS, fits, strict=True)):
        assert fit.status is Status.CONVERGED
        assert fit.value == pytest.approx(trusted_tau(test, dataset), abs=5e-5)
        alone = test.fit(dataset, null, 0) if member in (2, 4) else fit
        assert alone.status is Status.CONVERGED
        assert alone.value == pytest.approx(fit.value, abs=5e-5)
        np.testing.assert_allclose(alone.nu, fit.nu, atol=2e-4)
        # a free yield is in h and in nu_N: their sum counts
        np.testing.assert_allclose(
            alone.h_reference + alone.nu_norm, fit.h_reference + fit.nu_norm, atol=2e-3
        )
        np.testing.assert_allclose(test.h(fit.parameters, dataset.data), fit.h_data, atol=1e-4)


def test_a_family_has_every_bump_once() -> None:
    family = ConvexFamily.of(TESTS)
    assert family.basis.n_columns == 15 + 40 + 40 + 1
    out = np.empty((100, family.basis.n_columns), np.float32)
    family.basis.fill(POOL[:100], out)
    for test, own in zip(TESTS, family.members, strict=True):
        columns = np.empty((100, test.n_parameters), np.float32)
        test.basis.fill(POOL[:100], columns)
        np.testing.assert_allclose(out[:, own], columns, rtol=1e-5, atol=1e-7)


def test_the_order_of_the_tests_does_not_matter() -> None:
    dataset = toy("signal")
    null = fit_nuisances(dataset)
    forth = ConvexFamily.of(TESTS).fit(dataset, null)
    back = ConvexFamily.of(TESTS[::-1]).fit(dataset, null)[::-1]
    np.testing.assert_allclose([fit.value for fit in forth], [fit.value for fit in back], atol=5e-5)


def test_a_family_repeats_bitwise() -> None:
    dataset = toy("null")
    null = fit_nuisances(dataset)
    first, again = (ConvexFamily.of(TESTS).fit(dataset, null) for _ in range(2))
    assert [fit.value for fit in first] == [fit.value for fit in again]


def test_a_likelihood_that_overflows_ends_in_a_status() -> None:
    dataset = toy("null")
    absurd = replace(dataset, normalisation=Normalisation(0.1, 1e19))
    null = fit_nuisances(absurd)
    for fit in ConvexFamily.of(TESTS[:2]).fit(absurd, null):
        assert fit.status is not Status.CONVERGED
        assert np.isfinite(fit.value)
        assert fit.value >= null.value


def test_bad_families_are_named() -> None:
    with pytest.raises(DatasetError, match="at least one"):
        ConvexFamily.of([])
    with pytest.raises(DatasetError, match="Gaussian bumps"):
        ConvexFamily.of([ConvexTest(Precomputed(3, 3), 1.0)])
    with pytest.raises(DatasetError, match="one scale of z"):
        ConvexFamily.of([bumps(POOL, 10), bumps(2.0 * POOL, 10)])
