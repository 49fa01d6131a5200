import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import norm

from covad.embedding.losses import RatioHead, covariance_loss, supervised_contrastive


def slow_contrastive(points: list[list[float]], labels: list[int], temperature: float) -> float:
    """The definition, by loops."""
    terms = []
    for i, anchor in enumerate(points):
        similarity = [
            math.exp(sum(a * b for a, b in zip(anchor, p, strict=True)) / temperature) for p in points
        ]
        everything = sum(s for j, s in enumerate(similarity) if j != i)
        positives = [j for j in range(len(points)) if j != i and labels[j] == labels[i]]
        if positives:
            terms.append(-sum(math.log(similarity[j] / everything) for j in positives) / len(positives))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 0, 1], [0, 0, 0, 0, 0, 0, 1], [0] * 7])
def test_contrastive_loss_is_its_definition(labels: list[int]) -> None:
    generator = torch.Generator().manual_seed(3)
    points = torch.nn.functional.normalize(torch.randn(7, 3, generator=generator, dtype=torch.float64), dim=1)
    loss = supervised_contrastive(points, torch.tensor(labels), temperature=0.3)
    assert float(loss) == pytest.approx(slow_contrastive(points.tolist(), labels, 0.3), rel=1e-12)


def test_a_batch_without_positives_has_no_loss_and_a_finite_gradient() -> None:
    points = torch.nn.functional.normalize(torch.randn(4, 3), dim=1).requires_grad_()
    loss = supervised_contrastive(points, torch.arange(4))
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(points.grad).all()


def test_covariance_loss_is_its_definition() -> None:
    rng = np.random.default_rng(1)
    nominal, shifted = rng.normal(size=(6, 2)), [rng.normal(size=(5, 2)), rng.normal(size=(6, 2))]
    nu = [np.array([1.0, 0.0]), np.array([-2.0, 0.5])]
    slow = 0.0
    for value, sample in zip(nu, shifted, strict=True):
        slow += sum((1 / (1 + math.exp(-(g @ value)))) ** 2 for g in nominal) / len(nominal)
        slow += sum((1 - 1 / (1 + math.exp(-(g @ value)))) ** 2 for g in sample) / len(sample)
    fast = covariance_loss(
        *(
            [torch.from_numpy(v) for v in x] if isinstance(x, list) else torch.from_numpy(x)
            for x in (nu, nominal, shifted)
        )
    )
    assert float(fast) == pytest.approx(slow / 2, rel=1e-12)


def test_no_information_gives_one_half_and_the_true_ratio_gives_less() -> None:
    """x ~ N(0,1) moved by 0.3 nu: the log ratio is 0.3 nu x up to a constant of second order."""
    x = torch.randn(200_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    nu = [torch.tensor([1.0], dtype=torch.float64)]
    nothing = float(covariance_loss(nu, 0 * x, [0 * x]))
    truth, worse = (float(covariance_loss(nu, k * x, [k * (x + 0.3)])) for k in (0.3, 0.9))
    assert nothing == 0.5
    assert truth < worse
    assert truth < nothing


#: Quantiles of a normal distribution at equal probabilities: means over them are integrals.
NORMAL = torch.from_numpy(norm.ppf((np.arange(200_000) + 0.5) / 200_000))[:, None]


def loss_at(
    nu: float, moved: Callable[[float], torch.Tensor], g: Callable[[torch.Tensor], torch.Tensor]
) -> float:
    """L_cov on the grid +-nu; `moved` is the sample at nu, `g` the score u of z about nu."""
    grid = [torch.tensor([value], dtype=torch.float64) for value in (nu, -nu)]
    return float(covariance_loss(grid, g(moved(0.0)), [g(moved(value)) for value in (nu, -nu)]))


def shifted_mean(nu: float, a: float) -> float:
    """z ~ N(a nu, 1): log r is linear in nu, and I = a^2."""
    return loss_at(nu, lambda at: NORMAL + a * at, lambda z: a * z)


def shifted_width(nu: float, s: float) -> float:
    """z ~ N(0, e^{2 s nu}): log r is not linear in nu, and I = 2 s^2."""
    return loss_at(nu, lambda at: NORMAL * math.exp(s * at), lambda z: s * (z.square() - 1.0))


def test_to_leading_order_the_covariance_loss_is_the_fisher_information() -> None:
    """L_cov = 1/2 - <nu^2> I / 8 for small nu; what is left falls with another power of nu^2."""
    for loss, information in (
        (lambda nu: shifted_mean(nu, 0.1), 0.1**2),
        (lambda nu: shifted_width(nu, 0.1), 2 * 0.1**2),
    ):
        found = {nu: (0.5 - loss(nu)) / (nu**2 * information / 8) for nu in (0.5, 1.0)}
        assert found[0.5] == pytest.approx(1.0, abs=0.01)
        assert (1.0 - found[1.0]) / (1.0 - found[0.5]) == pytest.approx(4.0, rel=0.1)


def test_the_covariance_loss_prefers_a_sensitive_space_to_a_linear_one() -> None:
    """Twice the information outweighs that the response is not linear."""
    for nu in (1.0, 2.0):
        assert shifted_width(nu, 0.1) < shifted_mean(nu, 0.1)


def test_non_linearity_enters_the_covariance_loss_at_fourth_order() -> None:
    """Of two spaces of equal information the linear one is better, by an amount that grows as nu^4."""
    differences = [shifted_width(nu, 0.1) - shifted_mean(nu, 0.1 * math.sqrt(2)) for nu in (0.5, 1.0)]
    assert differences[0] > 0
    assert differences[1] / differences[0] == pytest.approx(16.0, rel=0.15)


def test_ratio_head_has_the_widths_asked_for() -> None:
    head = RatioHead(4, (512, 256, 128, 64, 32), 1)
    assert [m.out_features for m in head.layers if isinstance(m, torch.nn.Linear)] == [
        512,
        256,
        128,
        64,
        32,
        1,
    ]
