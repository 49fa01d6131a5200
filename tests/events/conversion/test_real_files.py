"""Real ROOT files, of the package scikit-hep-testdata==0.3.12 (80 MB): `make test-slow` installs it."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from covad.errors import CovadError
from covad.events.conversion.convert import prepare
from covad.events.conversion.describe import describe
from covad.events.conversion.mapping import parse_mapping
from covad.events.files import open_events
from covad.events.layout import Events

pytestmark = pytest.mark.slow

HZZ = {
    "collections": {
        "met": {"slots": 1, "features": {"pt": "hypot(MET_px, MET_py)", "phi": "arctan2(MET_py, MET_px)"}},
        "muon": {
            "slots": 4,
            "features": {
                "pt": "hypot(Muon_Px, Muon_Py)",
                "phi": "arctan2(Muon_Py, Muon_Px)",
                "iso": "Muon_Iso",
            },
        },
    },
    "weight": "EventWeight",
    "select": "count(muon.pt) >= 1",
}
FLAT = {
    "tree": "WtLoop_nominal",
    "collections": {
        "met": {"slots": 1, "features": {"pt": "met"}},
        "lepton": {"features": {"pt": ["pT_lep1", "pT_lep2"], "eta": ["eta_lep1", "eta_lep2"]}},
    },
    "select": "elmu and OS",
    "weight": "weight_nominal",
    "variations": {"*": "weight_sys_*"},
    "process": "tW",
}


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_spec("skhep_testdata")
    if found is None or found.origin is None:
        pytest.skip("pip install scikit-hep-testdata==0.3.12, which bundles real files")
    data = Path(found.origin).parent / "data"
    if not (data / "uproot-HZZ.root").exists():
        pytest.skip("this version of scikit-hep-testdata bundles no files: take 0.3.12")
    return data


def convert(content: dict[str, Any], path: Path, out: Path, **options: Any) -> Events:
    conversion = prepare(parse_mapping(content, "m.yaml"), [path], out)
    conversion.write(out, conversion.blocks(1))
    with open_events(out) as source:
        return source.read(**options)


def test_a_flat_tree_with_82_weight_variations(folder: Path, tmp_path: Path) -> None:
    path = folder / "uproot-issue63.root"
    with uproot.open(path) as file:
        tree = file["WtLoop_nominal"]
        found = tree.arrays(
            filter_name=["pT_lep*", "eta_lep*", "met", "elmu", "OS", "weight_*"], library="np"
        )
    names = tuple(name.removeprefix("weight_sys_") for name in found if name.startswith("weight_sys_"))
    assert len(names) == 82
    events = convert(FLAT, path, tmp_path / "a.h5", variations=names)
    selected = found["elmu"] & found["OS"]
    assert 0 < len(events) == selected.sum() < 9812
    for name in names:
        np.testing.assert_array_equal(events.variations[name], found[f"weight_sys_{name}"][selected])
    np.testing.assert_array_equal(events.event_weights, found["weight_nominal"][selected])
    np.testing.assert_array_equal(events.objects("met")[:, 0, 0], found["met"][selected])
    both = np.stack([found["pT_lep1"], found["pT_lep2"]], axis=1)[selected]
    np.testing.assert_array_equal(events.objects("lepton")[..., 0], -np.sort(-both, axis=1))


def test_all_compressions_give_the_same_events(folder: Path, tmp_path: Path) -> None:
    names = ("uncompressed", "zlib", "lz4", "lzma", "zstd")
    all_events = [convert(HZZ, folder / f"uproot-HZZ-{name}.root", tmp_path / "a.h5") for name in names]
    with uproot.open(folder / "uproot-HZZ.root") as file:
        found = file["events"].arrays(filter_name=["Muon_P*", "NMuon"])
    px, py = found["Muon_Px"], found["Muon_Py"]
    total = float(np.hypot(*(np.concatenate([x for x in p.to_list() if x]) for p in (px, py))).sum())
    for events in all_events:
        assert len(events) == int((found["NMuon"] > 0).to_numpy().sum())
        assert events.objects("muon")[..., 0].sum(dtype=float) == pytest.approx(total, rel=1e-5)
        np.testing.assert_array_equal(events.particles, all_events[0].particles)
        np.testing.assert_array_equal(events.weights, all_events[0].weights)


def test_every_file_can_be_described_or_is_refused_in_one_sentence(folder: Path) -> None:
    """Histograms, geometries, RNTuples, nested objects, old versions: whatever uproot itself is tried on."""
    described, complaints = 0, []
    for path in sorted(folder.glob("*.root")):
        try:
            described += len(describe(path).trees)
        except CovadError as failure:
            complaints.append(str(failure))
    assert described > 100
    assert all(said.startswith(str(folder)) and "\n" not in said for said in complaints)
