"""The training loop against torch's own Adam, step by step."""

from dataclasses import replace

import numpy as np
import torch

from covad.cli.adam import AdamSettings, train
from covad.nplm.dataset import Response
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.network.network import NetworkTest
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


def start_of(network):
    """Random weights, nuisances at zero."""
    return np.append(0.5 * np.random.default_rng(0).uniform(-1.0, 1.0, network.n_parameters), [0.0, 0.0])


def test_every_step_is_that_of_torch():
    dataset = WORLD.toy(np.random.default_rng(2))
    network = NetworkTest(clip=0.3)  # so narrow that the clipping acts
    likelihood, limits = network.likelihood(dataset, np.float64), network.limits(dataset)
    start = np.clip(start_of(network), -limits, limits)
    for epochs in (1, 2, 7, 200):
        ours = train(likelihood, start, limits, AdamSettings(epochs=epochs))
        np.testing.assert_allclose(ours, torch_train(likelihood, start, limits, epochs), atol=1e-9)
    assert (np.abs(ours[:45]) == 0.3).any()


def test_training_climbs_and_stays_in_the_box():
    dataset = WORLD.toy(np.random.default_rng(3), expected_signal=60.0)
    network = NetworkTest(clip=1.0)
    likelihood, limits = network.likelihood(dataset), network.limits(dataset)
    theta = train(likelihood, start_of(network), limits, AdamSettings(epochs=1500))
    assert 2.0 * likelihood.value(theta) > fit_nuisances(dataset).value
    assert np.abs(theta[:45]).max() <= 1.0


def test_training_that_overflows_does_not_end_in_numbers():
    dataset = WORLD.toy(np.random.default_rng(11))
    steep = [
        Response(r.linear * np.float32(1e19)) for r in (dataset.reference_response, dataset.data_response)
    ]
    absurd = replace(dataset, reference_response=steep[0], data_response=steep[1])
    network = NetworkTest(clip=1.0)
    theta = train(
        network.likelihood(absurd), start_of(network), network.limits(absurd), AdamSettings(epochs=20)
    )
    assert not np.isfinite(theta).all()
