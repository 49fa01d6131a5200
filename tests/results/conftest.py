"""One run for all tests of this room."""

from pathlib import Path

import pytest
from latent_run import make_latent_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_latent_run(tmp_path_factory.mktemp("latent"))
