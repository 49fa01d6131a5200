"""The notebook of the examples runs from top to bottom, and says what its text says."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first_look.ipynb"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_first_look(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=500, kernel_name="python3", resources=resources).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "latent-none, nu = +2: median" in printed
    assert printed.count("-> does not close: ") == 1
    assert printed.count("-> closes: ") == 1
    pictures = [o for c in notebook.cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) == 5
    assert not any(o.output_type == "error" for c in notebook.cells for o in c.get("outputs", []))
