"""The page on migration: the study of 0.1 is refused with the key's new name, the one for 0.2 is read."""

from pathlib import Path

import pytest
import yaml

from covad.errors import StudyError
from covad.study import parse_study
from covad.study.model import Study
from covad.study.sources import Collisions

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "migration.md").read_text()
OLD, NEW = (yaml.safe_load(part.split("```")[0]) for part in PAGE.split("```yaml\n")[1:])


def test_a_study_of_0_1_is_refused_with_the_new_name_of_the_key():
    with pytest.raises(StudyError) as refused:
        parse_study(OLD, "study.yaml")
    said = str(refused.value).removeprefix("study.yaml: ")
    assert said == "source.embeddings is called source.spaces now: rename it"
    assert f"`{said}`" in PAGE


def test_renaming_the_keys_is_all_that_is_needed():
    new = {"pools": "splits", "embeddings": "spaces"}
    renamed = OLD | {"source": {new.get(key, key): part for key, part in OLD["source"].items()}}
    by_default, migrated = parse_study(renamed, "study.yaml"), parse_study(NEW, "study.yaml")
    assert NEW.keys() - OLD.keys() == {"nu_norm", "prior", "result"}
    assert NEW["source"] == renamed["source"]
    assert (by_default.nu_norm, by_default.prior) == (migrated.nu_norm, migrated.prior)


def test_every_new_key_is_on_the_page_with_its_default():
    for section, key in ((Study, "nu_norm"), (Study, "prior"), (Study, "result"), (Collisions, "duplicates")):
        name = key if section is Study else f"source.{key}"
        (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        default = section.model_fields[key].default
        if isinstance(default, tuple):
            default = list(default)
        assert yaml.safe_load(line.split("`")[3]) == (default or "convex")
