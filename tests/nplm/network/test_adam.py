"""The training loop against torch's own Adam, step by step."""

import numpy as np
import torch

from covad.nplm.network.adam import AdamSettings, train
from covad.nplm.network.network import AdamNetwork, BoxedNetwork, torch_start
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld

WORLD = LatentWorld(n_reference=2000, expected=500.0)


def torch_train(likelihood, start, limits, epochs):
    """torch.optim.Adam on gradients from the same likelihood, weights clipped after each update."""
    theta = torch.tensor(start, requires_grad=True)
    bound = torch.tensor(limits)
    optimiser = torch.optim.Adam([theta], lr=1.2e-3)
    for _ in range(epochs):
        _, slope = likelihood.slope(theta.detach().numpy())
        theta.grad = torch.tensor(-2.0 * slope)
        optimiser.step()
        with torch.no_grad():
            theta.clamp_(-bound, bound)
    return theta.detach().numpy()


def test_every_step_is_that_of_torch():
    dataset = WORLD.toy(np.random.default_rng(2))
    network = BoxedNetwork(clip=0.3)  # so narrow that the clipping acts
    likelihood, limits = network.likelihood(dataset, np.float64), network.limits(dataset)
    start = np.append(torch_start(network.widths, np.random.default_rng(0)), [0.0, 0.0])
    start = np.clip(start, -limits, limits)
    for epochs in (1, 2, 7, 200):
        ours = train(likelihood, start, limits, AdamSettings(epochs=epochs))
        np.testing.assert_allclose(ours, torch_train(likelihood, start, limits, epochs), atol=1e-9)
    assert (np.abs(ours[:45]) == 0.3).any()


def test_training_climbs_and_stays_in_the_box():
    dataset = WORLD.toy(np.random.default_rng(3), expected_signal=60.0)
    result = likelihood_ratio(dataset, AdamNetwork(clip=1.0, training=AdamSettings(epochs=1500)), seed=0)
    assert result.t > 0.0
    assert np.abs(result.tau.parameters).max() <= 1.0
