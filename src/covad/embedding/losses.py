"""The paper's losses of stage 1: L = L_supCL + alpha L_cov (eq:total). `keep` has the third one, L_keep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


def supervised_contrastive(
    projected: torch.Tensor, labels: torch.Tensor, temperature: float = 0.1
) -> torch.Tensor:
    """Return L_supCL: events of one process attract, all others repel; mean over the anchors.

    An anchor whose process has no second event in the batch (ttbar is 0.3 % of the mix) has nothing to be
    attracted to: it is left out of the mean, but stays in the denominators of all others.
    """
    n = len(projected)
    itself = torch.eye(n, dtype=torch.bool, device=projected.device)
    similarity = (projected @ projected.T / temperature).masked_fill(itself, float("-inf"))
    log_share = similarity - torch.logsumexp(similarity, dim=1, keepdim=True)
    positive = (labels[:, None] == labels[None, :]) & ~itself
    number = positive.sum(dim=1)
    attraction = log_share.masked_fill(~positive, 0.0).sum(dim=1)
    anchors = number > 0
    return -(attraction[anchors] / number[anchors]).sum() / anchors.sum().clamp(min=1)


def covariance_loss(
    nu: Sequence[torch.Tensor], g_nominal: torch.Tensor, g_shifted: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return L_cov (eq:lcov) with means instead of sums: 0.5 means that g tells nothing about nu.

    `nu` holds vectors in units of sigma, `g_shifted` the response columns of the shifted events for each. The
    shifted events are the nominal ones moved, so that most of the noise cancels between the two terms.
    """
    terms = []
    for value, shifted in zip(nu, g_shifted, strict=True):
        nominal_term = torch.sigmoid(g_nominal @ value).square().mean()
        shifted_term = torch.sigmoid(-(shifted @ value)).square().mean()
        terms.append(nominal_term + shifted_term)
    return torch.stack(terms).mean()


class RatioHead(nn.Module):
    """The network part of g_phi: z -> columns, fully connected, ReLU inside, linear at the end."""

    def __init__(self, n_inputs: int, hidden: Sequence[int], n_columns: int) -> None:
        super().__init__()
        widths = [n_inputs, *hidden]
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], n_columns))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        columns: torch.Tensor = self.layers(z)
        return columns
