"""Directories of dead attempts are removed from a staging directory, those of living ones never."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.spark.settings import SparkSettings, settings_of
from flinkpy.spark.staging import staging_of_attempt
from flinkpy.spark.staging_leases import LEASE, LEASES, LeaseKeeper, MountedStaging, remove_dead_attempts

HOUR_MS = 3_600_000


def attempt(root: Path, name: str, age_ms: int | None) -> Path:
    """Makes the directory of an attempt whose lease has this age; None: without a lease."""
    directory = root / name
    directory.mkdir()
    (directory / "input-0.parquet").write_bytes(b"records")
    if age_ms is not None:
        (directory / LEASE).touch()
        written_ns = (directory / LEASE).stat().st_mtime_ns - age_ms * 1_000_000
        os.utime(directory / LEASE, ns=(written_ns, written_ns))
    return directory


def test_only_attempts_with_an_old_lease_are_removed(tmp_path: Path) -> None:
    for name, age_ms in (("own", 0), ("alive", HOUR_MS - 1000), ("dead", HOUR_MS + 60_000), ("of-somebody", None)):
        attempt(tmp_path, name, age_ms)
    (tmp_path / "flinkpy-jobs" / "a job").mkdir(parents=True)
    assert remove_dead_attempts(MountedStaging(tmp_path), HOUR_MS, "own") == ["dead"]
    left = {"own", "alive", "of-somebody", "flinkpy-jobs", ".flinkpy-cleaned"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_directory_is_looked_through_once_in_a_while(tmp_path: Path) -> None:
    files = MountedStaging(tmp_path)
    own = attempt(tmp_path, "own", 0)
    assert remove_dead_attempts(files, HOUR_MS, "own") == []
    attempt(tmp_path, "dead", 2 * HOUR_MS)
    assert remove_dead_attempts(files, HOUR_MS, "own") == [], "somebody has just looked"
    looked_ns = (own / LEASE).stat().st_mtime_ns - HOUR_MS * 1_000_000 // 5
    os.utime(tmp_path / ".flinkpy-cleaned", ns=(looked_ns, looked_ns))
    assert remove_dead_attempts(files, HOUR_MS, "own") == ["dead"]


def test_a_failure_is_logged_and_the_attempt_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class ReadOnly(MountedStaging):
        def remove_directory(self, name: str) -> None:
            raise PermissionError(f"{name} belongs to another user")

    attempt(tmp_path, "own", 0)
    attempt(tmp_path, "dead", 2 * HOUR_MS)
    assert remove_dead_attempts(ReadOnly(tmp_path), HOUR_MS, "own") == []
    assert "dead belongs to another user" in caplog.text


def test_the_staging_of_an_attempt_has_a_lease_until_it_closes(tmp_path: Path) -> None:
    root = tmp_path / "staging"
    root.mkdir()
    dead = attempt(root, "dead", 2 * HOUR_MS)
    settings = SparkSettings("spark://h:7077", staging_dir=str(root), cleanup_age_ms=HOUR_MS)
    staging = staging_of_attempt(settings, tmp_path / "local", "attempt-1")
    assert (root / "attempt-1" / LEASE).is_file()
    assert not dead.exists()
    staging.close()
    assert not (root / "attempt-1").exists()
    assert LEASES._leases == {}


def test_dead_attempts_stay_if_the_option_says_so(tmp_path: Path) -> None:
    dead = attempt(tmp_path, "dead", 100 * HOUR_MS)
    settings = settings_of(
        {"execution.batch.spark.staging-dir": str(tmp_path), "execution.batch.spark.staging-cleanup-age": "0 s"}
    )
    staging_of_attempt(settings, tmp_path / "local", "attempt-1").close()
    assert dead.exists()


def test_a_local_master_without_a_staging_directory_needs_no_lease(tmp_path: Path) -> None:
    staging = staging_of_attempt(SparkSettings("local[1]", cleanup_age_ms=HOUR_MS), tmp_path / "local", "attempt-1")
    assert staging.directory is not None and list(staging.directory.iterdir()) == []
    staging.close()


def test_an_age_that_living_attempts_could_reach_is_an_error() -> None:
    assert settings_of({}).cleanup_age_ms == 24 * HOUR_MS
    with pytest.raises(ConfigurationError, match=r"staging-cleanup-age: 30000 ms is too short.*at least 10 min"):
        settings_of({"execution.batch.spark.staging-cleanup-age": "30 s"})


def test_leases_are_written_until_they_are_released() -> None:
    keeper = LeaseKeeper(interval_s=0.01)
    written: list[str] = []
    twice = threading.Event()

    def fails_once() -> None:
        written.append("one")
        if len(written) == 2:
            raise OSError("the disk is away")
        if len(written) > 3:
            twice.set()

    keeper.keep("one", fails_once)
    assert written == ["one"], "written at once"
    assert twice.wait(30)
    keeper.release("one")
    keeper.release("one")
    number = len(written)
    other = threading.Event()
    keeper.keep("other", other.set)
    assert other.is_set() and len(written) == number
    keeper.release("other")
