"""Mapping files: every mistake is one sentence that names the key."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from covad.errors import MappingError, UnknownNameError
from covad.events.conversion.expressions import FUNCTIONS
from covad.events.conversion.mapping import (
    READY,
    CollectionEntry,
    EventMapping,
    parse_mapping,
    read_mapping,
    ready_mapping,
    restricted,
)

JET: dict[str, Any] = {"slots": 3, "features": {"pt": "Jet_pt", "eta": "Jet_eta"}}


def mapping(**content: Any) -> EventMapping:
    return parse_mapping({"collections": {"jet": JET}} | content, "m.yaml")


@pytest.mark.parametrize("name", READY)
def test_ready_mappings_are_read_and_written_again(name: str) -> None:
    ready = ready_mapping(name)
    assert ready.description
    assert parse_mapping(yaml.safe_load(yaml.safe_dump(ready.plain(), sort_keys=False)), "again") == ready
    assert restricted(ready, ["jet"]).layout.n_slots == ready.collections["jet"].n_slots


def test_no_other_mapping_is_ready() -> None:
    with pytest.raises(UnknownNameError, match=r"there is no ready mapping 'nano' .there are nanoaod, "):
        ready_mapping("nano")


def test_the_layout_follows_from_the_collections() -> None:
    lepton = {"features": {"pt": ["lep1_pt", "lep2_pt"], "charge": 1}}
    layout = mapping(collections={"jet": JET, "lepton": lepton}).layout
    assert [(c.name, c.slots, c.features) for c in layout.collections] == [
        ("jet", 3, ("pt", "eta")),
        ("lepton", 2, ("pt", "charge")),
    ]


def test_leaves_are_the_names_that_a_file_must_have() -> None:
    found = mapping(
        collections={"jet": JET | {"cut": "pt > cutoff and Jet_id", "sort": "eta"}},
        derived={"cutoff": "base + 1", "unused": "nothing"},
        select="sum(jet.pt) > HT_min",
        weight="w1 * w2",
    )
    assert dict(found.leaves()) == {
        "Jet_pt": "select",
        "Jet_eta": "select",
        "Jet_id": "select",
        "base": "select",
        "HT_min": "select",
        "w1": "weight",
        "w2": "weight",
    }
    assert found.used_by("jet") == {"Jet_pt", "Jet_eta", "Jet_id", "cutoff", "base"}


def test_data_have_no_weights() -> None:
    weighted = mapping(
        weight="w",
        variations={"up": "w * 2"},
        varied={"jes": {"Jet_pt": "Jet_pt * 1.1"}},
        sum_of_weights={"tree": "Runs", "sum": "genEventSumw"},
    )
    assert weighted.without_weights() == mapping()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"collections": {}}, "collections: "),
        ({"colections": {}}, "colections: there is no such key (is 'collections' meant?)"),
        (
            {"collections": {"jet": JET | {"slot": 3}}},
            "collections.jet.slot: there is no such key (is 'slots'",
        ),
        ({"collections": {"jet": {"features": {"pt": "x"}}}}, "collections.jet: slots: this key is needed"),
        ({"collections": {"jet": JET | {"slots": 0}}}, "collections.jet.slots: it should be greater than 0"),
        (
            {"collections": {"jet": JET | {"cut": "open('x')"}}},
            "collections.jet.cut: 'open('x')': there is no",
        ),
        (
            {"collections": {"jet": {"features": {"pt": ["a", "b"], "eta": ["c"]}}}},
            "collections.jet: features that are lists need the same number of objects in each",
        ),
        (
            {"collections": {"jet": JET, "tau": {"slots": 1, "features": {"et": "x"}}}},
            "all collections need the same first feature, but have et, pt",
        ),
        ({"select": "__import__('os').getcwd()"}, "select: "),
        ({"weight": True}, "weight: "),
        ({"derived": {"a": "b", "b": "a + 1"}, "select": "a > 1"}, "needs itself: a needs b needs a"),
        (
            {"weight": "w", "varied": {"jes": {"Jet_ptt": "1"}}},
            "varied.jes: 'Jet_ptt' is used in no collection",
        ),
        ({"variations": {"up": "w"}}, "variations and sum_of_weights need a weight"),
        ({"sum_of_weights": 3}, "variations and sum_of_weights need a weight"),
        ({"weight": "w", "variations": {"up": "w["}}, "'w[': is not an expression"),
        (
            {"weight": "w", "sum_of_weights": 3, "process": {"branch": "b", "names": {1: "tt"}}},
            "one number cannot say what each process has",
        ),
        ({"process": "t t"}, "process"),
        ({"aliases": {"x": []}}, "aliases.x: "),
    ],
)
def test_mistakes_are_told_with_their_key(content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MappingError) as failure:
        mapping(**content)
    assert str(failure.value).startswith("m.yaml: ")
    assert sentence in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    with pytest.raises(MappingError, match=r"there is no such file.*--describe FILE.*nanoaod"):
        read_mapping(path)
    for text, sentence in (
        ("- a\n- b\n", "a mapping of keys was expected"),
        ("a: [", "is not YAML"),
        ("tree: a\ntree: b\n", "key 'tree' stands twice, in line 1 and in line 2: remove one"),
        ("!!python/object/apply:os.getcwd []", "is not YAML"),
    ):
        path.write_text(text)
        with pytest.raises(MappingError, match=sentence):
            read_mapping(path)


def test_the_page_has_a_mapping_that_works_and_all_keys() -> None:
    """Every key of a mapping stands in the page, and the page has no other."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "conversion.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    example = parse_mapping(yaml.safe_load(block), "page")
    assert example.used_by("muon") >= {"Muon_pt", "Muon_tightId"}
    documented = set(re.findall(r"^\| `([a-z_.A-Z]+)` \|", page, re.MULTILINE)) - set(READY)
    keys = set(EventMapping.model_fields) - {"collections"}
    named = {"aliases", "derived", "variations", "varied"}
    expected = {f"{key}.NAME" if key in named else key for key in keys}
    expected |= {f"collections.NAME.{key}" for key in CollectionEntry.model_fields}
    assert documented == expected
    listed = set(re.findall(r"`([^`]*)`", "".join(re.findall(r"^\| of .*$", page, re.MULTILINE))))
    words = {word for text in listed for word in re.findall(r"[a-z_]+[0-9]*", text)}
    assert set(FUNCTIONS) <= words
