"""Spaces in the study file: what can be said, what is refused, and the keys that they had before."""

from typing import Any

import pytest
from finished_run import TINY

from covad.embedding.settings import EncoderSettings
from covad.errors import StudyError
from covad.study import parse_study
from covad.study.reading import translated
from covad.study.spaces import LearnedSpace

PLAIN: dict[str, Any] = {"kind": "observables", "observables": ["log_met", "ht"]}
OWN: dict[str, Any] = {"kind": "observables", "function": "mine:f", "names": ["a", "b"]}
LEARNED: dict[str, Any] = {"alpha": 0}


def study(spaces: dict[str, Any], splits: dict[str, Any] | None = None, **changes: Any) -> Any:
    given = TINY["source"]["splits"] if splits is None else splits
    source = TINY["source"] | {"spaces": spaces, "splits": given} | changes
    return parse_study(TINY | {"source": source, "configurations": [{"space": next(iter(spaces))}]}, "here")


def test_learned_observables_and_joined_spaces() -> None:
    both = {"kind": "joined", "of": ["learned", "own"]}
    source = study({"both": both, "learned": LEARNED, "own": OWN, "plain": PLAIN}).source
    assert [(name, entry.sort) for name, entry in source.spaces.items()] == [
        ("both", "joined"),
        ("learned", "contrastive"),
        ("own", "observables"),
        ("plain", "observables"),
    ]
    assert list(source.learned) == ["learned"]
    assert {name: entry.columns for name, entry in source.observables.items()} == {
        "own": ("a", "b"),
        "plain": ("log_met", "ht"),
    }


def test_observables_alone_need_no_events_for_an_encoder() -> None:
    splits = {role: n for role, n in TINY["source"]["splits"].items() if role != "encoder"}
    assert study({"plain": PLAIN}, splits).source.splits.encoder == 0
    assert study({"plain": PLAIN}, splits | {"encoder": 0}).source.splits.encoder == 0
    again = study({"plain": PLAIN}, splits)
    assert parse_study(again.plain(), "here") == again
    with pytest.raises(StudyError, match=r"splits\.encoder: 0 events leave 0 for the training"):
        study({"plain": PLAIN, "learned": LEARNED}, splits | {"encoder": 0})
    with pytest.raises(StudyError, match="folds: no space is learned"):
        study({"plain": PLAIN}, splits, folds=2)


MLP: dict[str, Any] = {"kind": "mlp", "frame": "event", "hidden": [16], "outputs": 6}


def test_learned_spaces_have_settings_of_their_own() -> None:
    spaces = {
        "a": LEARNED,
        "b": {"alpha": 1, "beta": 3, "keep": "observables", "outputs": 6, "seed": 2},
        "c": {"alpha": 0, "contrast": 0, "beta": "1e-1", "keep": ["variance", "changes"], "encoder": MLP},
    }
    found = study(spaces)
    source = found.source
    a, b, c = (source.learned[name] for name in "abc")
    assert (a.sort, b.sort, c.sort) == ("contrastive", "covariant", "contrastive")
    assert a.encoder_of(source.encoder) is source.encoder
    assert b.encoder_of(source.encoder) == source.encoder.changed(outputs=6)
    assert c.encoder_of(source.encoder) == EncoderSettings(**MLP)
    assert found.plain()["source"]["spaces"]["b"]["keep"] == "observables"
    assert found.plain()["source"]["spaces"]["c"]["keep"] == ["variance", "changes"]
    assert parse_study(found.plain(), "here") == found
    assert found.plain()["source"]["spaces"]["a"] == {"kind": "learned", "alpha": 0.0}
    assert "kind" not in found.plain()["source"]["encoder"]


def test_editors_take_one_kind_to_keep_or_several() -> None:
    kinds = LearnedSpace.model_json_schema()["properties"]["keep"]["anyOf"]
    assert [kind["type"] for kind in kinds] == ["string", "array", "null"]
    assert kinds[0]["enum"] == kinds[1]["items"]["enum"] == ["observables", "inputs", "variance", "changes"]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"a": LEARNED | {"beta": 1}}, r"source\.spaces\.a: beta weighs L_keep: say what to keep"),
    (
        {"a": LEARNED | {"keep": "inputs"}},
        r"spaces\.a: keep: inputs does nothing without a weight: give beta",
    ),
    (
        {"a": LEARNED | {"beta": 1, "keep": "all"}},
        r"spaces\.a\.keep: there is no kind 'all' \(there are observables, inputs, variance, changes\)",
    ),
    (
        {"a": LEARNED | {"beta": 1, "keep": ["inputs", "all"]}},
        r"spaces\.a\.keep: there is no kind 'all' \(there are observables",
    ),
    (
        {"a": LEARNED | {"beta": 1, "keep": ["inputs", "inputs"]}},
        r"spaces\.a\.keep: the kind 'inputs' stands twice",
    ),
    (
        {"a": LEARNED | {"beta": -1, "keep": "inputs"}},
        r"spaces\.a\.beta: it should be greater than or equal to 0",
    ),
    ({"a": LEARNED | {"beta": 1, "keep": []}}, r"spaces\.a\.keep: "),
    ({"a": LEARNED | {"beta": 1, "keep": 7}}, r"spaces\.a\.keep: "),
    ({"a": LEARNED | {"contrast": 0}}, r"spaces\.a: contrast: 0 leaves nothing that shapes z: give beta"),
    ({"a": LEARNED | {"outputs": 0}}, r"spaces\.a\.outputs: it should be greater than 0"),
    ({"a": LEARNED | {"seed": -1}}, r"spaces\.a\.seed: it should be greater than or equal to 0"),
    ({"a": LEARNED | {"outputs": 3, "encoder": MLP}}, r"spaces\.a: outputs stands beside encoder"),
    (
        {"a": LEARNED | {"encoder": {"kind": "cnn"}}},
        r"spaces\.a\.encoder\.kind: it should be 'transformer' or",
    ),
    (
        {"a": LEARNED | {"encoder": {"frame": "moon"}}},
        r"spaces\.a\.encoder\.frame: it should be 'detector' or",
    ),
    (
        {"a": LEARNED | {"encoder": {"axis": ["jet"]}}},
        r"spaces\.a\.encoder: axis does nothing in the frame of",
    ),
    (
        {"a": LEARNED | {"encoder": MLP | {"width": 8}}},
        r"spaces\.a\.encoder: width is a size of the transformer",
    ),
    ({"a": LEARNED | {"encoder": {"hidden": [8]}}}, r"spaces\.a\.encoder: hidden is a size of the mlp"),
    ({"a": LEARNED | {"encoder": {"kind": "mlp", "hidden": []}}}, r"spaces\.a\.encoder\.hidden: "),
    ({"a": LEARNED | {"gamma": 1}}, r"spaces\.a\.gamma: there is no such key"),
    ({"a": {"kind": "measured"}}, r"source\.spaces\.a\.kind: learned or observables or joined was expected"),
    ({"a": {}}, r"source\.spaces\.a\.alpha: this key is needed"),
    ({"a": PLAIN | {"alpha": 1}}, r"source\.spaces\.a\.alpha: there is no such key"),
    ({"a": {"kind": "observables"}}, "spaces.a: either observables or a function with names is needed"),
    ({"a": PLAIN | OWN}, "either observables or a function with names is needed"),
    ({"a": {"kind": "observables", "function": "mine:f"}}, "names and function belong together"),
    ({"a": PLAIN | {"names": ["x"]}}, "names and function belong together"),
    ({"a": PLAIN | {"observables": ["ht", "htt"]}}, r"spaces\.a: there is no observable 'htt' \(there are"),
    ({"a": PLAIN | {"observables": ["ht", "ht"]}}, "the observable 'ht' stands twice"),
    ({"a": {"kind": "joined", "of": ["b"]}, "b": PLAIN}, r"spaces\.a\.of: "),
    ({"a": {"kind": "joined", "of": ["b", "b"]}, "b": PLAIN}, r"spaces\.a\.of: 'b' stands twice"),
    ({"a": {"kind": "joined", "of": ["b", "c"]}, "b": PLAIN}, r"'c' is no space that can be joined \(there"),
    ({"a": {"kind": "joined", "of": ["a", "b"]}, "b": PLAIN}, r"'a' is no space that can be joined"),
]


@pytest.mark.parametrize(("spaces", "sentence"), BAD)
def test_a_mistake_is_one_sentence_with_its_key(spaces: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StudyError, match=sentence) as refused:
        study(spaces)
    assert "\n" not in str(refused.value)


def test_a_device_that_nobody_has_is_refused() -> None:
    with pytest.raises(
        StudyError, match=r"source\.training\.device: it should be 'auto', 'cpu', 'cuda' or 'mps'"
    ):
        study({"a": LEARNED}, training=TINY["source"]["training"] | {"device": "tpu"})


OLD: dict[str, Any] = {
    "source": {"embeddings": {"a": {"alpha": 1}}, "kind": "events"},
    "configurations": [{"embedding": "a", "order": 2}, {"treatment": "none"}],
}


def test_old_keys_are_told_their_new_names() -> None:
    with pytest.raises(StudyError, match=r"^x: source\.embeddings is called source\.spaces now: rename it$"):
        parse_study(OLD, "x")
    with pytest.raises(StudyError, match=r"configurations\.0\.embedding is called configurations\.0\.space"):
        parse_study(OLD | {"source": {}}, "x")
    pools = {"kind": "pools", "path": "p", "embedding": "e"}
    with pytest.raises(StudyError, match=r"source\.embedding is called source\.space now"):
        parse_study({"source": pools}, "x")


def test_the_study_of_an_older_run_is_translated() -> None:
    assert translated(OLD) == {
        "source": {"spaces": {"a": {"alpha": 1}}, "kind": "events"},
        "configurations": [{"space": "a", "order": 2}, {"treatment": "none"}],
    }
    assert translated(TINY) == TINY
    assert translated(None) is None
    assert "embeddings" in OLD["source"]
