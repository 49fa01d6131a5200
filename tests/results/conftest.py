"""Runs for all tests of this room."""

from pathlib import Path

import pytest
from latent_run import SMALL, make_latent_run

from covad.pipeline.report import report_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_latent_run(tmp_path_factory.mktemp("latent"))


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a report, whose profiled configuration has the convex test alone."""
    path = make_latent_run(tmp_path_factory.mktemp("small"), **SMALL)
    report_run(path)
    return path
