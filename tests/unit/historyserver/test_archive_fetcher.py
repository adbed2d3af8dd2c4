"""The history server follows its directories: new, changed, damaged, deleted and surplus archives."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.historyserver.archive_fetcher import ArchiveFetcher, Retention
from flinkpy.historyserver.archive_store import ArchiveStore
from flinkpy.rest.archive_format import JOBS, SUMMARY, ArchivedAnswer, application_directory, encode_archive

CLUSTER = "0" * 32
A, B, C = "a" * 32, "b" * 32, "c" * 32
NOW_MS = 1_700_000_000_000


def job_archive(job_id: str, state: str = "FINISHED") -> bytes:
    overview = {"jobs": [{"jid": job_id, "state": state, "start-time": ord(job_id[0])}]}
    return encode_archive(
        [ArchivedAnswer("/jobs/overview", json.dumps(overview)), ArchivedAnswer(f"/jobs/{job_id}", '{"told": true}')]
    )


class Directory:
    """A directory of archives, and a history server that follows it."""

    def __init__(self, path: Path, store: ArchiveStore) -> None:
        self.path = path / "archives"
        self.store = store
        self.fetcher = self.restarted()

    def restarted(self, applications: Retention | None = None, jobs: Retention | None = None) -> ArchiveFetcher:
        self.fetcher = ArchiveFetcher(
            (str(self.path),), FileSystems(), self.store, applications or Retention(), jobs or Retention()
        )
        return self.fetcher

    def add_application(self, job_id: str, content: bytes | None = None, modified_ms: int = NOW_MS) -> Path:
        folder = Path(application_directory(str(self.path), CLUSTER, job_id))
        (folder / JOBS).mkdir(parents=True, exist_ok=True)
        overview = json.dumps({"applications": [{"id": job_id, "status": "FINISHED"}]})
        self.write(folder / JOBS / job_id, job_archive(job_id) if content is None else content, modified_ms)
        self.write(folder / SUMMARY, encode_archive([ArchivedAnswer("/applications/overview", overview)]), modified_ms)
        return folder

    def add_job(self, job_id: str, modified_ms: int = NOW_MS) -> Path:
        """Adds an archive in the form of Flink 2.2."""
        self.path.mkdir(exist_ok=True)
        return self.write(self.path / job_id, job_archive(job_id), modified_ms)

    def write(self, path: Path, content: bytes, modified_ms: int) -> Path:
        path.write_bytes(content)
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        return path

    def shown(self, now_ms: int = NOW_MS) -> list[str]:
        """Returns the jobs that are shown after the next look."""
        self.fetcher.refresh(now_ms)
        return [job["jid"] for job in json.loads(self.store.find("/jobs/overview") or b"{}")["jobs"]]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    store = ArchiveStore(tmp_path)
    yield Directory(tmp_path, store)
    store.close()


def test_archives_of_both_layouts_are_shown_the_latest_first(directory: Directory) -> None:
    assert directory.shown() == []
    directory.add_application(A)
    directory.add_job(B)
    assert directory.shown() == [B, A]
    assert directory.store.find(f"/jobs/{A}") == b'{"told": true}'
    assert directory.store.find("/jobs/none") is None
    applications = json.loads(directory.store.find("/applications/overview") or b"{}")["applications"]
    assert [one["id"] for one in applications] == [A]


def test_other_files_are_ignored(directory: Directory) -> None:
    directory.add_application(A)
    (directory.path / "README").write_text("no archive")
    (directory.path / CLUSTER / "applications" / A / JOBS / f"{B}.12ab.unfinished").write_bytes(job_archive(B))
    assert directory.shown() == [A]


def test_a_damaged_archive_is_left_out_with_one_error_until_it_changes(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.add_application(A)
    folder = directory.add_application(B, b'{"archive": [')
    with caplog.at_level(logging.ERROR):
        assert directory.shown() == [A]
        assert directory.shown() == [A]
    (told,) = [record.getMessage() for record in caplog.records]
    assert str(folder / JOBS / B) in told and "is damaged" in told
    directory.add_application(B, modified_ms=NOW_MS + 1)
    assert directory.shown() == [B, A]


def test_a_job_that_is_added_to_an_application_later_is_shown(directory: Directory) -> None:
    folder = directory.add_application(A)
    assert directory.shown() == [A]
    directory.write(folder / JOBS / B, job_archive(B), NOW_MS + 1)
    assert directory.shown() == [B, A]


def test_jobs_are_shown_although_their_application_was_not_archived(directory: Directory) -> None:
    (directory.add_application(A) / SUMMARY).unlink()
    assert directory.shown() == [A]


def test_deleted_archives_stay_unless_the_option_says_otherwise(directory: Directory) -> None:
    folder = directory.add_application(A)
    assert directory.shown() == [A]
    for path in (folder / JOBS / A, folder / SUMMARY):
        path.unlink()
    assert directory.shown() == [A]
    directory.add_application(A)
    directory.restarted(applications=Retention(cleans_expired=True))
    assert directory.shown() == [A]
    for path in (folder / JOBS / A, folder / SUMMARY):
        path.unlink()
    assert directory.shown() == []
    assert directory.store.find(f"/jobs/{A}") is None


def test_the_oldest_surplus_archives_are_deleted(directory: Directory) -> None:
    folders = [directory.add_application(one, modified_ms=NOW_MS + number) for number, one in enumerate((A, B, C))]
    legacy = directory.add_job("d" * 32, modified_ms=NOW_MS - 1_000_000)
    directory.restarted(applications=Retention(max_archives=2), jobs=Retention(ttl_ms=1_000_001))
    assert directory.shown() == ["d" * 32, C, B]
    assert [folder.exists() for folder in folders] == [False, True, True]
    assert directory.shown(NOW_MS + 1) == [C, B]
    assert not legacy.exists()


def test_a_directory_that_cannot_be_read_keeps_what_is_known(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.add_application(A)
    assert directory.shown() == [A]
    directory.path.rename(directory.path.with_name("away"))
    directory.path.write_text("not a directory")
    with caplog.at_level(logging.ERROR):
        assert directory.shown() == directory.shown() == [A]
    assert len([record for record in caplog.records if "cannot read the archives" in record.getMessage()]) == 1
