"""What the stage `tune` chose for every configuration: the basis of the convex test, W of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from covad.errors import CovadError, FileFormatError
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.convex import ConvexTest
from covad.runs.products import Products
from covad.storage.json_files import read_json
from covad.storage.records import restore
from covad.study.plan import Sources, fixed_clips, space

if TYPE_CHECKING:
    from covad.inference.clip import ClipChoice


def read_bases(products: Products, sources: Sources) -> dict[str, ConvexTest]:
    """Return the convex test with the basis and ridge that were chosen, by slug, as far as they are there."""
    bases = {}
    for configuration in products.study.configurations:
        product = products.basis(configuration, sources.get(space(configuration)))
        if product.made:
            bases[configuration.slug] = _restore_convex(read_json(product.verified()), str(product.path))
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


def plain_convex(test: ConvexTest) -> dict[str, Any]:
    """Return basis and ridge of a convex test as JSON data."""
    if not isinstance(test.basis, GaussianBasis):
        raise TypeError("only a basis of bumps is stored")
    arrays = {name: array.tolist() for name, array in test.basis.arrays().items()}
    return {"ridge": test.ridge, "basis": test.basis.settings(), "arrays": arrays}


def _restore_convex(content: Mapping[str, Any], where: str) -> ConvexTest:
    """Return the convex test that `plain_convex` described."""
    try:
        arrays = {name: np.array(values) for name, values in content["arrays"].items()}
        return ConvexTest(GaussianBasis.restore(arrays, content["basis"]), content["ridge"])
    except (AttributeError, KeyError, TypeError, CovadError) as failure:
        raise FileFormatError(f"{where}: cannot be understood ({failure})") from failure
