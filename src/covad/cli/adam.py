"""The paper's training loop: full-batch Adam with weight clipping after every update (sec:weightclipping).

The yardstick of the Newton fits: the same kernels, but no convergence test; tau is the likelihood of the last
epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covad.nplm.dataset import Float64
from covad.nplm.network.likelihood import NetworkLikelihood


@dataclass(frozen=True)
class AdamSettings:
    """The paper's training; decay rates and epsilon are those of Kingma and Ba."""

    epochs: int = 50_000
    learning_rate: float = 1.2e-3
    first_decay: float = 0.9
    second_decay: float = 0.999
    epsilon: float = 1e-8


PAPER_TRAINING = AdamSettings()


@np.errstate(over="ignore", invalid="ignore")
def train(likelihood: NetworkLikelihood, start: Float64, limits: Float64, settings: AdamSettings) -> Float64:
    """Return theta after the last epoch; the loss is -2 log L, and |theta| <= limits after every update.

    Where the likelihood overflows, theta is not finite: the caller has to look.
    """
    theta = np.clip(start, -limits, limits)
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    for epoch in range(1, settings.epochs + 1):
        _, slope = likelihood.slope(theta)
        loss_slope = -2.0 * slope
        mean += (1.0 - settings.first_decay) * (loss_slope - mean)
        square += (1.0 - settings.second_decay) * (loss_slope**2 - square)
        unbiased = mean / (1.0 - settings.first_decay**epoch)
        scale = np.sqrt(square / (1.0 - settings.second_decay**epoch)) + settings.epsilon
        theta = np.clip(theta - settings.learning_rate * unbiased / scale, -limits, limits)
    return theta
