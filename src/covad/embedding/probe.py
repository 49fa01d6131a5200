"""How well a linear classifier tells the processes apart in the latent space.

The contrastive loss is about separation; a linear probe measures it without a choice that could flatter. The
probe on the natural mix has the accuracy that is compared with a majority guess; the one on balanced classes,
where the rarest process counts as much as the most frequent, has the balanced accuracy.

Events with weights are judged with them and their signs: accuracies are sums of w over the events that are
labelled right. A probe that is fitted with negative weights need not have one minimum: it is fitted with |w|,
scaled so that every process has the share that its signed weights give it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.metrics import ProbeResult
from covad.errors import TrainingError

Floats = NDArray[np.float64]
_ITERATIONS = 200


def linear_probe(
    z: NDArray[np.float32],
    labels: NDArray[np.integer],
    fresh_z: NDArray[np.float32],
    fresh_labels: NDArray[np.integer],
    weights: Floats | None = None,
    fresh_weights: Floats | None = None,
) -> ProbeResult:
    """Fit both probes on one sample, judge them on another; both have weights, or none has."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2 or not np.isin(fresh_labels, classes).all():
        raise TrainingError("a probe needs two processes at least, and the same ones in both samples")
    fresh_codes = np.searchsorted(classes, fresh_labels)
    centre, width = z.mean(axis=0), z.std(axis=0) + 1e-6
    u, fresh_u = ((x - centre) / width for x in (z, fresh_z))
    size = np.ones(len(codes)) if weights is None else _positive(codes, weights)
    frequency = np.bincount(codes, size) / len(codes)
    share = np.where(frequency > 0, frequency, 1.0)[codes]
    natural = _logistic_regression(u, codes, size)
    balanced = _logistic_regression(u, codes, size / (len(classes) * share))
    right = _predict(natural, fresh_u) == fresh_codes
    recalled = _predict(balanced, fresh_u) == fresh_codes
    if fresh_weights is not None:
        return _judged(right, recalled, fresh_codes, fresh_weights)
    present = np.unique(fresh_codes)
    return ProbeResult(
        accuracy=float(right.mean()),
        accuracy_uncertainty=float(right.std() / np.sqrt(len(right))),
        balanced_accuracy=float(np.mean([recalled[fresh_codes == c].mean() for c in present])),
        majority=float(np.bincount(fresh_codes).max() / len(fresh_codes)),
    )


def _positive(codes: NDArray[np.integer], weights: Floats) -> Floats:
    """Return |w| scaled to the sum of the signed weights in every class, one on average."""
    size = np.abs(weights)
    signed, unsigned = np.bincount(codes, weights), np.bincount(codes, size)
    scaled = size * (np.maximum(signed, 0.0) / np.where(unsigned > 0, unsigned, 1.0))[codes]
    if not scaled.any():
        raise TrainingError(
            "the weights of no process add up to a positive number: a probe needs more events"
        )
    return np.asarray(scaled / scaled.mean())


def _judged(
    right: NDArray[np.bool_], recalled: NDArray[np.bool_], codes: NDArray[np.integer], weights: Floats
) -> ProbeResult:
    """Return the accuracies with signed weights; a process without a positive sum has no recall."""
    total, by_class = weights.sum(), np.bincount(codes, weights)
    if total <= 0.0:
        raise TrainingError("the weights of the fresh events add up to nothing: a probe needs more of them")
    accuracy = float(weights @ right / total)
    present = np.flatnonzero(by_class > 0)
    recall = np.bincount(codes, weights * recalled)[present] / by_class[present]
    return ProbeResult(
        accuracy=accuracy,
        accuracy_uncertainty=float(np.sqrt(np.square(weights * (right - accuracy)).sum()) / total),
        balanced_accuracy=float(recall.mean()),
        majority=float(by_class.max() / total),
    )


def _logistic_regression(
    u: NDArray[np.float32], codes: NDArray[np.integer], weights: NDArray[np.float64]
) -> torch.nn.Linear:
    """Fit a multinomial logistic regression: convex, so the start does not matter."""
    model = torch.nn.Linear(u.shape[1], int(codes.max()) + 1, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    inputs, target, weight = (torch.from_numpy(np.asarray(x)) for x in (u.astype(np.float64), codes, weights))
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        entropy = torch.nn.functional.cross_entropy(model(inputs), target, reduction="none")
        mean = (weight * entropy).mean()
        mean.backward()  # type: ignore[no-untyped-call]
        return mean

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return model


@torch.no_grad()
def _predict(model: torch.nn.Linear, u: NDArray[np.float32]) -> NDArray[np.int64]:
    scores: torch.Tensor = model(torch.from_numpy(u.astype(np.float64)))
    return np.asarray(scores.argmax(dim=1).numpy())
