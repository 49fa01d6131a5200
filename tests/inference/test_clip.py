"""The choice of the clip, on toys whose mean grows as a power of W."""

import numpy as np
import pytest

from covad.errors import InferenceError
from covad.inference.clip import ClipError, choose_clip

DOF = 45
POWER = 1.9
TRUE_CLIP = (DOF / 10.8) ** (1.0 / POWER)


class PowerLawToys:
    """t = 10.8 W^1.9 times a gamma variate that belongs to the toy, plus noise of the fit at this W.

    The spread at the root is 7.5, less than the 9.5 of a chi2: what the clipped network shows.
    """

    def __init__(self, stream: int, failing: tuple[int, ...] = (), noise: float = 1.0) -> None:
        self.stream, self.failing, self.noise = stream, failing, noise
        self.run: list[tuple[float, int]] = []

    def __call__(self, clip: float, indices: np.ndarray) -> np.ndarray:
        self.run += [(clip, int(i)) for i in indices]
        return np.array([np.nan if i in self.failing else self.toy(clip, int(i)) for i in indices])

    def toy(self, clip: float, index: int) -> float:
        data = np.random.default_rng([self.stream, index]).gamma(36.0) / 36.0
        fit = np.random.default_rng([self.stream, index, int(clip * 1e9)]).normal()
        return 10.8 * clip**POWER * data + self.noise * fit


def test_the_clip_is_found_within_its_error():
    choices = [choose_clip(PowerLawToys(stream), DOF) for stream in range(30)]
    pulls = np.array([(choice.clip - TRUE_CLIP) / choice.clip_error for choice in choices])
    # mean 0 and width 1 of 30 pulls, four standard errors each
    assert abs(pulls.mean()) < 4 / np.sqrt(30)
    assert 1 - 4 / np.sqrt(60) < pulls.std() < 1 + 4 / np.sqrt(60)
    for choice in choices:
        assert choice.error <= 1.25 * 0.1 * np.sqrt(2 * DOF)  # tolerance, and the paired step on top
        assert abs(choice.mean - DOF) <= 0.5 * choice.error
        assert choice.power == pytest.approx(POWER, rel=0.3)


def test_few_toys_are_spent_and_none_twice():
    toys = PowerLawToys(1)
    choice = choose_clip(toys, DOF)
    assert len(toys.run) == len(set(toys.run)) == choice.n_evaluations
    assert choice.n_evaluations < 350  # a scan of five clips with 400 toys each takes 2000
    assert choice.n_evaluations == sum(point.n_toys for point in choice.scan)


def test_the_scan_has_every_clip_with_its_p_values():
    choice = choose_clip(PowerLawToys(2), DOF)
    clips = [point.clip for point in choice.scan]
    assert clips == sorted(clips)
    assert {0.5, 4.0, choice.clip} <= set(clips)
    assert [found.method for found in choice.scan[0].goodness] == ["KS", "AD", "CvM", "chi2 (10 dof)"]
    assert choice.scan[0].goodness[0].p < 1e-6  # mean 2.9 at W = 0.5


def test_a_smaller_tolerance_costs_more_and_errs_less():
    rough, fine = (choose_clip(PowerLawToys(3), DOF, tolerance=tolerance) for tolerance in (0.2, 0.05))
    assert fine.n_evaluations > rough.n_evaluations
    assert fine.error < rough.error


def test_a_noisy_fit_takes_more_pairs_not_a_larger_error():
    choice = choose_clip(PowerLawToys(8, noise=5.0), DOF)
    assert choice.error <= 1.6 * 0.1 * np.sqrt(2 * DOF)
    assert abs(choice.clip - TRUE_CLIP) < 4 * choice.clip_error


def test_failed_toys_are_counted_and_not_used():
    choice = choose_clip(PowerLawToys(4, failing=(3, 17)), DOF)
    assert all(point.n_failed >= 2 for point in choice.scan)
    assert abs(choice.clip - TRUE_CLIP) < 5 * choice.clip_error


@pytest.mark.parametrize("bracket", [(0.5, 1.2), (3.0, 5.0)])
def test_a_bracket_without_the_root_is_an_error_with_its_scan(bracket):
    with pytest.raises(ClipError, match=r"no clip from .* brings the mean of t to 45") as caught:
        choose_clip(PowerLawToys(5), DOF, bracket)
    assert [point.clip for point in caught.value.scan] == list(bracket)


def test_a_bracket_that_ends_at_the_root_is_settled_with_more_toys():
    toys = PowerLawToys(6)
    with pytest.raises(ClipError) as caught:
        choose_clip(toys, DOF, (TRUE_CLIP * 1.06, 4.0))
    assert caught.value.scan[0].n_toys >= 24


def test_a_mean_that_does_not_answer_to_the_clip_is_an_error():
    def jump(clip, indices):
        return np.random.default_rng(1).chisquare(45, 2000)[indices] + (20.0 if clip > 2.0 else -20.0)

    with pytest.raises(ClipError, match="does not rise steadily"):
        choose_clip(jump, DOF)


def test_settings_that_cannot_work_are_named():
    with pytest.raises(InferenceError, match="bracket"):
        choose_clip(PowerLawToys(1), DOF, (2.0, 1.0))
    with pytest.raises(InferenceError, match="24 toys were asked for"):
        choose_clip(lambda clip, indices: np.ones(3), DOF)
    with pytest.raises(InferenceError, match="cannot be negative"):
        choose_clip(lambda clip, indices: -np.ones(len(indices)) * clip, DOF)
    with pytest.raises(InferenceError, match="toys: at least 4"):
        choose_clip(lambda clip, indices: np.full(len(indices), np.nan), DOF)
