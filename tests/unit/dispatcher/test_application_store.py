"""The store remembers on disk which application a cluster runs and how it ended, for later masters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkpy.common.durable_file import CorruptFileError, write_checksummed
from flinkpy.common.errors import ApplicationError, ConfigurationError, ExternalError
from flinkpy.dispatcher.application_status import ApplicationResult, ApplicationState
from flinkpy.dispatcher.application_store import ApplicationDescription, ApplicationStore
from flinkpy.dispatcher.application_terms import (
    application_id,
    application_store,
    describe_application,
    local_application_id,
)

ID = "c" * 32
FAILED = ApplicationResult(ApplicationState.FAILED, 3, "the program has ended with exit status 3", "Traceback")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text("pass\n")
    return path


def described(program: Path, *arguments: str) -> ApplicationDescription:
    return ApplicationDescription(ID, str(program), arguments)


def test_a_later_master_finds_the_result(tmp_path: Path, program: Path) -> None:
    application = described(program, "--x")
    first = ApplicationStore(tmp_path / "store")
    assert first.claim(application) is None
    assert ApplicationStore(tmp_path / "store").claim(application) is None
    first.put_result(application, FAILED)
    assert ApplicationStore(tmp_path / "store").claim(application) == FAILED


def test_another_program_or_other_arguments_are_another_application(tmp_path: Path, program: Path) -> None:
    store = ApplicationStore(tmp_path / "store")
    store.claim(described(program, "--x"))
    with pytest.raises(ApplicationError, match=r"belongs to another application: program\.py"):
        store.claim(described(program, "--y"))
    moved = tmp_path / "elsewhere" / "program.py"
    moved.parent.mkdir()
    moved.write_text(program.read_text())
    assert store.claim(described(moved, "--x")) is None
    program.write_text("pass  # another version\n")
    with pytest.raises(ApplicationError, match=r"remove .*\.application"):
        store.claim(described(program, "--x"))


def test_the_error_of_an_unreadable_store_names_the_file(tmp_path: Path, program: Path) -> None:
    store = ApplicationStore(tmp_path / "store")
    store.claim(described(program))
    path = next((tmp_path / "store").iterdir())
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CorruptFileError, match=str(path)):
        store.claim(described(program))
    path.write_bytes(content.replace(b"FLKP1\n", b"FLKP2\n"))
    with pytest.raises(CorruptFileError, match="written by a newer release"):
        store.claim(described(program))
    write_checksummed(path, json.dumps({"version": 99, "program": "p"}).encode())
    with pytest.raises(ApplicationError, match="newer release, in format 99"):
        store.claim(described(program))
    with pytest.raises(ExternalError, match="cannot use the store"):
        ApplicationStore(program / "store").claim(described(program))


def test_the_application_id_is_derived_from_the_cluster_id(tmp_path: Path) -> None:
    highly_available = {"high-availability.type": "ZOOKEEPER", "high-availability.cluster-id": "/mine"}
    assert application_id({"cluster.id": ID.upper(), **highly_available}) == ID
    assert application_id(highly_available) == application_id(dict(highly_available))
    assert application_id(highly_available) != application_id(
        {**highly_available, "high-availability.cluster-id": "/x"}
    )
    assert application_id({}) != application_id({})
    working = {"process.jobmanager.working-dir": str(tmp_path)}
    assert application_id(working) == application_id(working)
    assert local_application_id(working) != local_application_id(working)
    with pytest.raises(ConfigurationError, match="32 hex digits"):
        application_id({"cluster.id": "mine"})


def test_masters_with_high_availability_share_the_store(tmp_path: Path, program: Path) -> None:
    assert application_store({}) is None
    for configuration in (
        {"process.jobmanager.working-dir": str(tmp_path / "work")},
        {"application-result-store.storage-path": str(tmp_path / "results")},
        {
            "high-availability.type": "ZOOKEEPER",
            "high-availability.storageDir": f"file://{tmp_path}/shared",
            "high-availability.cluster-id": "/a/b",
        },
    ):
        store = application_store(configuration)
        assert store is not None
        store.claim(described(program))
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.application"))
    name = f"{ID}.application"
    assert files == [
        f"results/{name}",
        f"shared/application-result-store/a-b/{name}",
        f"work/application/{name}",
    ]
    with pytest.raises(ConfigurationError, match="storageDir"):
        application_store({"high-availability.type": "ZOOKEEPER"})


def test_the_error_of_a_missing_program_comes_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ApplicationError, match=r"nothing\.py does not exist"):
        describe_application(str(tmp_path / "nothing.py"), (), {})
