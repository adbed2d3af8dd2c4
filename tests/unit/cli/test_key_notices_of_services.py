"""Services and `flinkpy cluster start` name keys that are deprecated or have no effect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from flinkpy.cli import cluster
from flinkpy.cli.services import serve
from flinkpy.common import Configuration
from flinkpy.configuration import key_notices

EXPECTED = [
    "option `state.backend` is deprecated; use `state.backend.type`",
    "these options of Flink have no effect in flinkpy: rest.retry.delay",
]


@pytest.fixture(autouse=True)
def _permissions_of_files_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restores the umask, because a service restricts the umask of its process, which runs the tests here."""
    monkeypatch.setenv("FLINKPY_UMASK_OF_USER", "022")
    monkeypatch.setattr("flinkpy.common.file_permissions._mask", 0)
    old = os.umask(0o022)
    yield
    os.umask(old)


@pytest.fixture(autouse=True)
def _nothing_was_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_notices, "_seen", set())


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == key_notices.__name__]


async def ended() -> int:
    return 0


def test_a_service_logs_notices_about_keys(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration.from_dict({"state.backend": "hashmap", "rest.retry.delay": "1 s"})

    assert serve(ended(), configuration, name="dispatcher") == 0
    assert messages(caplog) == EXPECTED


def test_a_process_started_by_a_service_does_not_repeat_the_notices(caplog: pytest.LogCaptureFixture) -> None:
    serve(ended(), Configuration.from_dict({"state.backend": "hashmap"}), name="jobmaster", warns_of_keys=False)
    assert messages(caplog) == []


def test_cluster_start_prints_notices_about_keys(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Stop(Exception):
        """Ends the command before it starts processes."""

    def start(*_: object) -> None:
        raise Stop

    monkeypatch.setattr(cluster, "_start_in_background", start)
    properties = ("state.backend=hashmap", "rest.retry.delay=1 s", f"env.pid.dir={tmp_path}")
    arguments = [argument for text in properties for argument in ("-D", text)]

    assert isinstance(CliRunner().invoke(cluster.start, arguments).exception, Stop)
    assert messages(caplog) == EXPECTED
