"""All lines of the result, in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Iterator

from calibration.checks import Check, convex_checks, network_checks, pull_checks
from calibration.controls import (
    Control,
    controls_of_the_network,
    controls_of_the_yield,
    controls_of_toys,
)
from calibration.ensembles import Suite


def all_lines(suite: Suite) -> Iterator[Check | Control]:
    """Check and control, cheap lines first: a suite that is stopped has shown something."""
    yield from controls_of_toys(suite)
    yield from pull_checks(suite)
    yield from convex_checks(suite)
    yield from controls_of_the_yield(suite)
    yield from network_checks(suite)
    yield from controls_of_the_network(suite)
