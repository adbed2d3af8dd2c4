"""Received names in paths, with the payloads of CVE-2020-17518 and CVE-2020-17519."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import FlinkError, UnsafePathError
from flinkpy.common.ids import JobID
from flinkpy.common.process_diagnostics import LogFiles
from flinkpy.common.safe_paths import safe_join, safe_join_below
from flinkpy.dispatcher.blob_server import BlobStore
from flinkpy.highavailability.file_job_graph_store import FileJobGraphStore
from flinkpy.highavailability.file_job_result_store import FileJobResultStore
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories

CORPUS = [
    # CVE-2020-17518: the file name of an upload
    "../../../../../../../../../../../../tmp/proof",
    "..\\..\\..\\tmp\\proof",
    # CVE-2020-17519: the name of a log file, encoded once and twice
    "..%252f..%252f..%252f..%252f..%252fetc%252fpasswd",
    "..%2f..%2f..%2fetc%2fpasswd/../x",
    "..",
    ".",
    "",
    "/",
    "/etc/passwd",
    "//etc/passwd",
    "\\\\server\\share",
    "a/../../secret",
    "a/..",
    "./a/../..",
    "....//....//secret",
    "..;/secret",
    "../secret",
    "secret/../../secret",
    "x\0.result",
    "../secret\0.log",
    "a\nb",
    "a\rb",
    "a\x1b[31m",
    "a\x7f",
    "n" * 256,
    "ü" * 128,
    "\udc80",
    "~/../secret",
    "C:\\secret",
    "\u2025/\u2025/secret",
    "file:///etc/passwd",
]
#: Unusual names that are valid names of files. They stay in their directory.
HARMLESS = [
    "..%252f..%252f..%252f..%252f..%252fetc%252fpasswd",
    "...",
    "..a",
    "a..",
    "~",
    "%2e%2e",
    "-rf",
    "a b",
    "\u2025",
]


@pytest.mark.parametrize("name", [name for name in CORPUS if name not in HARMLESS])
def test_no_name_leads_out_of_its_directory(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafePathError) as raised:
        safe_join(tmp_path, name)
    assert len(str(raised.value)) < 500 and str(raised.value).isprintable()
    with pytest.raises(UnsafePathError):
        safe_join(tmp_path, "fine", name, "fine")


@pytest.mark.parametrize("name", [*HARMLESS, "a" * 64, "n" * 255])
def test_file_names_become_paths_in_the_directory(name: str, tmp_path: Path) -> None:
    assert safe_join(tmp_path, name).parent == tmp_path
    assert safe_join(tmp_path, name, "b") == tmp_path / name / "b"


def test_relative_paths_may_contain_directories_but_not_lead_out(tmp_path: Path) -> None:
    assert safe_join_below(tmp_path, "a/b/c") == tmp_path / "a" / "b" / "c"
    for relative in ("", ".", "..", "/a", "a/../b", "a/../../b", "../a", "a\0", "a\\..\\b"):
        with pytest.raises(UnsafePathError):
            safe_join_below(tmp_path, relative)


def test_a_symbolic_link_cannot_lead_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(UnsafePathError):
        safe_join_below(root, "link/secret")


def readers(root: Path) -> dict[str, Callable[[str], object]]:
    """All stores that find a file by a received name."""
    for name in ("graphs", "results", "recovery", "blobs", "logs"):
        (root / name).mkdir()
    results = FileJobResultStore(root / "results")
    graphs = FileJobGraphStore(root / "graphs")
    recovery = JobRecoveryDirectories(root / "recovery")
    blobs = BlobStore(root / "blobs", 1 << 20)
    logs = LogFiles(str(root / "logs"), "/nonexistent", "/nonexistent")
    return {
        "result of a job": lambda name: results.load(JobID(name)),
        "result to be removed": lambda name: results.remove(JobID(name)),
        "result to be written": lambda name: results.create_dirty(dispatcher_pb2.JobTerminated(job_id=name)),
        "graph of a job": lambda name: graphs.recover(JobID(name)),
        "graph to be removed": lambda name: graphs.remove(JobID(name)),
        "recovery directory": lambda name: recovery.remove(JobID(name)),
        "blob": lambda name: b"".join(blobs.read(name)),
        "log file": lambda name: b"".join(logs.read(name)),
    }


@pytest.mark.parametrize("name", CORPUS)
def test_stores_access_nothing_outside_their_directories(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    secrets = [tmp_path / "secret", root / "secret", root / "secret_DIRTY.result", root / "secret.result"]
    for secret in secrets:
        secret.write_text("keep out")
    for what, read in readers(root).items():
        try:
            found = read(name)
        except (FlinkError, FileNotFoundError, UnicodeEncodeError):  # a message cannot hold every text
            continue
        assert not found or b"keep out" not in bytes(str(found), "utf-8"), what
    assert [secret.read_text() for secret in secrets] == ["keep out"] * len(secrets)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "secret"]
