"""The downloader, against a real server on this machine that misbehaves on demand."""

import hashlib
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from event_files import fill, small_disk, unprivileged
from public_service import Service

from covad.errors import CovadError, DownloadError, UnknownNameError
from covad.events.download import DEFAULT_URL, RECORDS, URL_VARIABLE, FetchedFile, Retries, fetch

CONTENT = np.random.default_rng(8).bytes(300_000)
NAME = "leptoquark.h5"
EAGER = Retries(attempts=4, first_wait_seconds=0.01, timeout_seconds=5.0)


def fetch_lq(service: Service, out_dir: Path, **options: Any) -> FetchedFile:
    (fetched,) = fetch(["lq"], out_dir, service.url, retries=EAGER, **options)
    return fetched


def assert_whole(directory: Path) -> None:
    """The file is there with all its bytes, and nothing else is."""
    assert [p.name for p in directory.iterdir()] == [NAME]
    assert (directory / NAME).read_bytes() == CONTENT


def test_fetches_once_and_tells_how_far_it_is(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    steps: list[tuple[str, int, int]] = []
    fetched = fetch_lq(service, tmp_path / "new" / "place", progress=lambda *step: steps.append(step))
    assert_whole(tmp_path / "new" / "place")
    assert (fetched.size, fetched.was_there) == (300_000, False)
    assert steps[-1] == (NAME, 300_000, 300_000)
    assert fetch_lq(service, tmp_path / "new" / "place").was_there
    assert service.ranges == [None], "a verified file is not fetched again"


def test_all_samples_of_the_dataset(service: Service, tmp_path: Path) -> None:
    for sample in RECORDS:
        service.publish(sample, f"{sample}.h5", sample.encode())
    fetched = fetch(tuple(RECORDS), tmp_path, service.url, retries=EAGER)
    assert [file.path.read_text() for file in fetched] == ["background", "a4l", "lq", "hpm", "h0"]
    assert set(RECORDS.values()) == {5046389, 5046446, 5055454, 5061633, 5061688}


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_other_checksums(service: Service, tmp_path: Path, algorithm: str) -> None:
    digest = hashlib.new(algorithm, CONTENT).hexdigest().upper()
    service.publish("lq", NAME, CONTENT, checksum=f"{algorithm}:{digest}")
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)


def test_links_may_be_relative(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT, links={"self": f"/files/{NAME}/content"})
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)


def test_the_environment_names_a_mirror(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.publish("lq", NAME, CONTENT)
    monkeypatch.setenv(URL_VARIABLE, f"{service.url}/")
    fetch(["lq"], tmp_path)
    assert_whole(tmp_path)
    assert DEFAULT_URL.startswith("https://")


def test_an_empty_file(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, b"")
    assert fetch_lq(service, tmp_path).path.read_bytes() == b""


# Connections that end early


@pytest.mark.parametrize("mischief", ["drop", "reset"])
def test_a_dropped_connection_is_continued(service: Service, tmp_path: Path, mischief: str) -> None:
    service.publish("lq", NAME, CONTENT)
    service.mischief = [mischief, "none", mischief, mischief]  # once the metadata, twice the file
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)
    starts = [int((asked or "bytes=0-")[6:-1]) for asked in service.ranges]
    assert len(starts) == 3
    assert starts == sorted(starts)
    if mischief == "drop":
        assert starts == [0, 150_000, 225_000]


@pytest.mark.parametrize("status", ["500", "503", "429"])
def test_a_busy_server_is_asked_again(service: Service, tmp_path: Path, status: str) -> None:
    service.publish("lq", NAME, CONTENT)
    service.mischief = [status, "none", status]
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)


def test_giving_up_keeps_what_came(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    service.mischief = ["none", *["drop"] * 4]
    with pytest.raises(DownloadError, match=r"gave up after 4 attempts \(.* after 281250 of 300000 bytes\)"):
        fetch_lq(service, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [f"{NAME}.part"]
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)
    assert service.ranges[-1] == "bytes=281250-"


def test_a_server_without_ranges_begins_again(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:1000])
    service.mischief = ["none", "ignore range"]
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)
    assert service.ranges == ["bytes=1000-"]


def test_another_range_than_asked_for_begins_again(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:1000])
    service.mischief = ["none", "other range"]
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)
    assert service.ranges == ["bytes=1000-", None]


@pytest.mark.parametrize(
    ("part", "ranges"),
    [
        (CONTENT, []),  # complete, only the name was missing
        (CONTENT + b"more", [None]),  # longer than the file
        (b"x" * 1000, ["bytes=1000-", None]),  # of another file, which the checksum tells
        (b"x" * len(CONTENT), [None]),
    ],
)
def test_whatever_the_partial_file_is(
    service: Service, tmp_path: Path, part: bytes, ranges: list[str | None]
) -> None:
    service.publish("lq", NAME, CONTENT)
    (tmp_path / f"{NAME}.part").write_bytes(part)
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)
    assert service.ranges == ranges


@pytest.mark.parametrize("damage", [CONTENT[:-1], b"x" + CONTENT[1:]])
def test_a_damaged_file_is_fetched_again(service: Service, tmp_path: Path, damage: bytes) -> None:
    service.publish("lq", NAME, CONTENT)
    (tmp_path / NAME).write_bytes(damage)
    assert not fetch_lq(service, tmp_path).was_there
    assert_whole(tmp_path)


# What is refused


def assert_fails(service: Service, out_dir: Path, message: str) -> None:
    with pytest.raises(DownloadError, match=message) as caught:
        fetch_lq(service, out_dir)
    assert "\n" not in str(caught.value)


def test_wrong_bytes_leave_nothing(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    service.mischief = ["none", "wrong bytes"]
    expected = hashlib.md5(CONTENT).hexdigest()
    assert_fails(
        service, tmp_path, rf"{NAME}: checksum md5:{expected} was expected, md5:[0-9a-f]{{32}} was found"
    )
    assert list(tmp_path.iterdir()) == []


def test_wrong_bytes_do_not_replace_what_was_there(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    (tmp_path / NAME).write_bytes(b"mine")
    service.mischief = ["none", "wrong bytes"]
    assert_fails(service, tmp_path, "was expected")
    assert (tmp_path / NAME).read_bytes() == b"mine"


def test_longer_and_shorter_than_announced(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT, size=len(CONTENT) - 1)
    assert_fails(service, tmp_path, f"{NAME}: 299999 bytes were expected, 300000 were found")
    assert list(tmp_path.iterdir()) == []
    service.mischief = ["none", *["truncate"] * 4]
    assert_fails(service, tmp_path, "the server answered 416")


def test_a_part_that_the_server_cannot_continue_is_begun_again(service: Service, tmp_path: Path) -> None:
    """The server lost the end of its file for one request; what came before is not kept for ever."""
    service.publish("lq", NAME, CONTENT)
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:200_000])
    service.mischief = ["none", "truncate"]
    fetch_lq(service, tmp_path)
    assert_whole(tmp_path)
    assert service.ranges == ["bytes=200000-", None]


def test_missing_record_and_missing_file(service: Service, tmp_path: Path) -> None:
    assert_fails(service, tmp_path, f"api/records/{RECORDS['lq']}: the server answered 404 Not Found")
    service.publish("lq", NAME, CONTENT)
    del service.files[NAME]
    assert_fails(service, tmp_path, f"files/{NAME}/content: the server answered 404 Not Found")
    assert len(service.ranges) == 1, "not found is not tried again"


def test_unreachable_host(service: Service, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(DownloadError, match=r"gave up after 4 attempts .*refused"):
            fetch(["lq"], tmp_path, address, retries=EAGER)


def test_silent_server(service: Service, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        impatient = Retries(attempts=2, first_wait_seconds=0.01, timeout_seconds=0.1)
        with pytest.raises(DownloadError, match=r"gave up after 2 attempts .*timed out"):
            fetch(["lq"], tmp_path, address, retries=impatient)


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc",
        "zenodo",
        "http://",
        "http://[",
        "ftp://127.0.0.1",
        "http://127.0.0.1:port",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/ä",
    ],
)
def test_addresses_that_are_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(DownloadError, match="is not an"):
        fetch(["lq"], tmp_path, address, retries=EAGER)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"<html>", "the metadata of the record are malformed"),
        (b"\xff\xfe\x00", "the metadata of the record are malformed"),
        (b"[" * 100_000, "malformed"),
        ([], "malformed"),
        ({}, "the metadata of the record lack 'files'"),
        ({"files": None}, "malformed"),
        ({"files": ["a.h5"]}, "malformed"),
        ({"files": [{"key": "a.h5"}]}, "lack 'size'"),
    ],
)
def test_malformed_metadata(service: Service, tmp_path: Path, record: Any, message: str) -> None:
    service.records[RECORDS["lq"]] = record
    assert_fails(service, tmp_path, message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": 5}, "5 is not a file name"),
        ({"size": "300000"}, "'300000' is not the size"),
        ({"size": -1}, "-1 is not the size"),
        ({"size": True}, "True is not the size"),
        ({"checksum": hashlib.md5(CONTENT).hexdigest()}, "is not a checksum"),
        ({"checksum": "md5:"}, "is not a checksum"),
        ({"checksum": "crc32:00000000"}, "is not a checksum"),
        ({"checksum": None}, "is not a checksum"),
        ({"links": {}}, "lack 'self'"),
        ({"links": {"self": 7}}, "malformed"),
        ({"links": {"self": "file:///etc/passwd"}}, "is not an http or https address"),
    ],
)
def test_malformed_entries(service: Service, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    service.publish("lq", NAME, CONTENT, **changes)
    assert_fails(service, tmp_path, message)
    assert service.ranges == []


@pytest.mark.parametrize(
    "name",
    ["../evil.h5", "/etc/evil.h5", "a/b.h5", "..", ".", "", ".hidden", "a\\b", "c:evil", "a\x00b", "a\nb"],
)
def test_names_that_leave_the_directory(service: Service, tmp_path: Path, name: str) -> None:
    service.publish("lq", NAME, CONTENT, key=name)
    out_dir = tmp_path / "out"
    assert_fails(service, out_dir, "is not a file name")
    assert [p.name for p in tmp_path.rglob("*")] == ["out"]


def test_two_files_of_one_name(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    service.publish("h0", NAME, CONTENT)
    with pytest.raises(DownloadError, match=f"more than one file of the records is called {NAME}"):
        fetch(["lq", "h0"], tmp_path, service.url, retries=EAGER)


def test_unknown_sample(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown public sample 'zprime' \(known: background, a4l"):
        fetch(["zprime"], tmp_path)


def test_metadata_without_an_end(service: Service, tmp_path: Path) -> None:
    service.records[RECORDS["lq"]] = b" " * (17 * 2**20)
    assert_fails(service, tmp_path, "too long to be the metadata of a record")


# Places that cannot be written


def test_the_directory_is_a_file(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    (tmp_path / "file").touch()
    assert_fails(service, tmp_path / "file", "file: cannot be stored")


def test_the_file_is_a_directory(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    (tmp_path / NAME).mkdir()
    with pytest.raises(CovadError, match="Is a directory"):
        fetch_lq(service, tmp_path)


def test_no_permission(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    tmp_path.chmod(0o555)
    with unprivileged():
        assert_fails(service, tmp_path, "cannot be stored .*Permission denied")


def test_disk_too_small(service: Service, tmp_path: Path) -> None:
    service.publish("lq", NAME, CONTENT)
    with small_disk(tmp_path / "disk", "128k") as disk:
        assert_fails(service, disk, "300000 bytes are still to come, but the disk has 131072 left")
        assert service.ranges == []


def test_disk_fills_on_the_way(service: Service, tmp_path: Path) -> None:
    content = CONTENT * 10
    service.publish("lq", NAME, content)
    service.mischief = ["none", "drop"]
    with small_disk(tmp_path / "disk", "4m") as disk:

        def somebody_else_writes(_name: str, _done: int, _size: int) -> None:
            fill(disk / "else")

        with pytest.raises(DownloadError, match=f"{NAME}: cannot be stored .No space left on device"):
            fetch_lq(service, disk, progress=somebody_else_writes)
        assert not (disk / NAME).exists()
        (disk / "else").unlink()
        assert fetch_lq(service, disk).path.read_bytes() == content
