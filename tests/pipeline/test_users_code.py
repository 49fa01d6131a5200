"""A module of the user that is edited while its run goes on: nothing is made or kept with other code."""

import shutil
from pathlib import Path

import pytest
from finished_run import TINY, tiny_study

from covad.errors import StudyError
from covad.pipeline.checks import check_space
from covad.pipeline.claim import claim
from covad.pipeline.encoder import train_encoder
from covad.pipeline.pools import embed_pools
from covad.pipeline.response import fit_responses
from covad.pipeline.selected import check_selected
from covad.pipeline.stages import learn
from covad.runs.collisions import CollisionData, users_code
from covad.runs.directory import RunDirectory
from covad.storage.ledger import Product

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_events" / "my_systematics.py"


@pytest.fixture
def world(tmp_path):
    """A study with an own systematic, and a run that has claimed it."""
    shutil.copy(EXAMPLE, tmp_path)
    entry = {"name": "photon_scale", "function": "my_systematics:photon_scale", "sigma": 0.02}
    study = tiny_study(source=TINY["source"] | {"systematics": [entry], "folder": str(tmp_path)})
    directory = RunDirectory(tmp_path / "run")
    claim(directory, study, users_code(CollisionData.of(study, directory)))
    return study, directory, tmp_path / EXAMPLE.name


@pytest.mark.parametrize(
    "job",
    [
        lambda study, run: train_encoder(study, run, "covariant", 0),
        lambda study, run: fit_responses(study, run, "covariant", 0, [1]),
        lambda study, run: embed_pools(study, run, "covariant", [1]),
        lambda study, run: check_space(study, run, ("covariant", 1), 0),
        lambda study, run: learn(study, run, "events", 1),
        lambda study, run: check_selected(CollisionData.of(study, run)),
    ],
)
def test_no_job_starts_with_other_code_than_the_run_has(world, job):
    study, directory, module = world
    module.write_text(module.read_text() + "# edited\n")
    with pytest.raises(StudyError, match="code of the systematics or observables has changed"):
        job(study, directory)


def test_what_was_made_is_not_noted_if_the_code_changed_meanwhile(world):
    study, directory, module = world
    data, original = CollisionData.of_run(study, directory), module.read_text()
    product = Product(directory.path, "encoder", "model", {"seed": 1})
    product.path.write_text("weights")
    module.write_text(original + "# edited\n")
    with pytest.raises(StudyError, match="code of the systematics or observables has changed"):
        data.note(product)
    assert not product.made
    module.write_text(original)
    data.note(product)
    assert product.made
