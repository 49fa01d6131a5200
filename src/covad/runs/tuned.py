"""What the stage `tune` chose for every configuration: bumps and ridges, and W of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from covad.errors import CovadError, FileFormatError
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import Member, Members
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.convex import ConvexTest
from covad.runs.products import Products
from covad.storage.json_files import read_json
from covad.storage.records import restore
from covad.study.plan import Sources, fixed_clips, space, tests_on_bumps

if TYPE_CHECKING:
    from covad.inference.clip import ClipChoice


def read_bases(products: Products, sources: Sources) -> dict[tuple[str, str], ConvexTest | AdaptiveTest]:
    """Return the tests with the bumps that were chosen, by name and slug, as far as they are there."""
    bases: dict[tuple[str, str], ConvexTest | AdaptiveTest] = {}
    for test, configuration in tests_on_bumps(products.study):
        product = products.basis(configuration, sources.get(space(configuration)), test)
        if product.made:
            content, where = read_json(product.verified()), str(product.path)
            bases[test, configuration.slug] = restore_test(content, where)
    return bases


def read_clips(products: Products, sources: Sources) -> dict[str, float]:
    """Return W by slug, given or tuned, as far as it is known."""
    tuned = {slug: choice.clip for slug, choice in read_clip_choices(products, sources).items()}
    return tuned | fixed_clips(products.study)


def read_clip_choices(products: Products, sources: Sources) -> dict[str, ClipChoice]:
    """Return how W was chosen, by slug, as far as it was."""
    from covad.inference.clip import ClipChoice  # scipy.stats takes its time, and few studies need it

    choices = {}
    for configuration in products.study.configurations:
        product = products.clip(configuration, sources.get(space(configuration)))
        if product.made:
            content = read_json(product.verified())
            choices[configuration.slug] = restore(ClipChoice, content, str(product.path))
    return choices


def plain_test(test: ConvexTest | AdaptiveTest) -> dict[str, Any]:
    """Return bumps and ridges of a test as JSON data."""
    if isinstance(test, AdaptiveTest):
        members = test.members
        return {
            "scales": [_plain_basis(scale) for scale in members.scales],
            "capacities": list(members.capacities),
            "members": [vars(member) | {"scales": list(member.scales)} for member in members.members],
            "constant": members.constant,
            "parts": list(members.parts),
        }
    if not isinstance(test.basis, GaussianBasis):
        raise TypeError("only a basis of bumps is stored")
    return {"ridge": test.ridge, **_plain_basis(test.basis)}


def restore_test(content: Mapping[str, Any], where: str) -> ConvexTest | AdaptiveTest:
    """Return the test that `plain_test` described."""
    try:
        if "members" not in content:
            return ConvexTest(_restore_basis(content), content["ridge"])
        members = Members(
            scales=tuple(_restore_basis(scale) for scale in content["scales"]),
            capacities=tuple(map(float, content["capacities"])),
            members=tuple(
                Member(tuple(map(int, each["scales"])), float(each["spread"]), float(each["ridge"]))
                for each in content["members"]
            ),
            constant=bool(content["constant"]),
            parts=tuple(map(str, list(content.get("parts", [])))),
        )
        _ = members.columns, members.family
        return AdaptiveTest(members)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, CovadError) as failure:
        raise FileFormatError(f"{where}: cannot be understood ({failure})") from failure


def _plain_basis(basis: GaussianBasis) -> dict[str, Any]:
    arrays = {name: array.tolist() for name, array in basis.arrays().items()}
    return {"basis": basis.settings(), "arrays": arrays}


def _restore_basis(content: Mapping[str, Any]) -> GaussianBasis:
    arrays = {name: np.array(values) for name, values in content["arrays"].items()}
    return GaussianBasis.restore(arrays, content["basis"])
