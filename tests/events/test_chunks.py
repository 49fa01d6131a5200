"""Datasets that are compressed outside HDF5: read back by HDF5 as they were appended."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from covad.events.chunks import GrowingChunks


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sizes", [(1,), (10,), (3, 4, 3), (0, 25, 0, 5), (9, 1, 1), (40, 7), (20, 10), ()])
def test_hdf5_reads_what_was_appended(tmp_path: Path, sizes: tuple[int, ...], threads: int) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(sum(sizes), 3, 2)).astype(np.float32) * (rng.random((sum(sizes), 3, 1)) < 0.3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "x", (0, 3, 2), maxshape=(None, 3, 2), chunks=(10, 3, 2), dtype="f4", compression="gzip"
        )
        growing = GrowingChunks(dataset, threads)
        done = 0
        for size in sizes:
            growing.append(rows[done : done + size])
            done += size
        growing.finish()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].compression == "gzip"
        assert file["x"].id.get_num_chunks() == -(-sum(sizes) // 10)
        np.testing.assert_array_equal(file["x"][()], rows)
