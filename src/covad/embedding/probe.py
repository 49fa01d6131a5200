"""How well a linear classifier tells the processes apart in the latent space.

The contrastive loss is about separation; a linear probe measures it without a choice that could flatter. The
probe on the natural mix has the accuracy that is compared with a majority guess; the one on balanced classes,
where the rarest process counts as much as the most frequent, has the balanced accuracy.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from covad.embedding.metrics import ProbeResult
from covad.errors import TrainingError

_ITERATIONS = 200


def linear_probe(
    z: NDArray[np.float32],
    labels: NDArray[np.integer],
    fresh_z: NDArray[np.float32],
    fresh_labels: NDArray[np.integer],
) -> ProbeResult:
    """Fit both probes on one sample, judge them on another."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2 or not np.isin(fresh_labels, classes).all():
        raise TrainingError("a probe needs two processes at least, and the same ones in both samples")
    fresh_codes = np.searchsorted(classes, fresh_labels)
    centre, width = z.mean(axis=0), z.std(axis=0) + 1e-6
    u, fresh_u = ((x - centre) / width for x in (z, fresh_z))
    frequency = np.bincount(codes) / len(codes)
    natural = _logistic_regression(u, codes, np.ones(len(codes)))
    balanced = _logistic_regression(u, codes, 1 / (len(classes) * frequency[codes]))
    right = _predict(natural, fresh_u) == fresh_codes
    recalled = _predict(balanced, fresh_u) == fresh_codes
    present = np.unique(fresh_codes)
    return ProbeResult(
        accuracy=float(right.mean()),
        accuracy_uncertainty=float(right.std() / np.sqrt(len(right))),
        balanced_accuracy=float(np.mean([recalled[fresh_codes == c].mean() for c in present])),
        majority=float(np.bincount(fresh_codes).max() / len(fresh_codes)),
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
