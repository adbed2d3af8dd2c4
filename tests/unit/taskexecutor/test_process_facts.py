"""Log files, thread dump and options of a process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, UserError
from flinkpy.common.process_diagnostics import LogFiles
from flinkpy.taskexecutor.diagnostics import thread_dump
from flinkpy.taskexecutor.options import task_executor_options

NO_FILE = "/nonexistent"


def test_only_names_of_the_log_list_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "te.log").write_bytes(b"hello")
    (tmp_path / "log" / "link.log").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_bytes(b"no")
    logs = LogFiles(str(tmp_path / "log"), NO_FILE, NO_FILE)
    assert [(f.name, f.size_bytes) for f in logs.list()] == [("te.log", 5)]
    assert b"".join(logs.read("te.log")) == b"hello"
    for name in ("../secret", "link.log", "..%2fsecret", str(tmp_path / "secret"), "", "."):
        with pytest.raises(UserError):
            logs.read(name)


def test_without_a_log_directory_the_list_is_empty() -> None:
    assert LogFiles(None, NO_FILE, NO_FILE).list() == []


def test_the_files_that_a_process_logs_to_are_in_the_list(tmp_path: Path) -> None:
    log, other = tmp_path / "te.log", tmp_path / "private"
    log.write_bytes(b"line")
    other.write_bytes(b"no")
    logs = LogFiles(None, str(log), NO_FILE)
    assert ([one.name for one in logs.list()], logs.log_name, logs.stdout_name) == (["te.log"], "te.log", None)
    assert logs.path_of("private") is None
    log.unlink()
    assert (logs.list(), logs.log_name) == ([], None)


def test_the_thread_dump_names_this_thread_and_place() -> None:
    mine = next(t for t in thread_dump().threads if t.name == threading.current_thread().name)
    assert "test_the_thread_dump_names_this_thread_and_place" in mine.stack


def test_options_have_the_keys_of_flink() -> None:
    options = task_executor_options(
        Configuration.from_dict(
            {
                "resourcemanager.rpc.address": "rm-host",
                "resourcemanager.rpc.port": "7000",
                "taskmanager.numberOfTaskSlots": "3",
                "taskmanager.slot.timeout": "4 s",
                "taskmanager.bind-host": "0.0.0.0",
                "taskmanager.host": "worker-1",
                "task.cancellation.timeout": "0",
                "io.tmp.dirs": "/x,/y",
            }
        )
    )
    assert options.resource_manager_address == "rm-host:7000"
    assert (options.num_slots, options.slot_timeout_ms, options.cancellation_timeout_ms) == (3, 4_000, 0)
    assert (options.bind_address, options.advertised_host, options.tmp_dir) == ("0.0.0.0", "worker-1", "/x")
    assert options.resource_id.startswith("taskexecutor-worker-1-")


def test_a_working_directory_is_kept_only_with_a_configured_resource_id() -> None:
    base = {"resourcemanager.rpc.address": "h", "resourcemanager.rpc.port": "1", "process.working-dir": "/w"}
    assert task_executor_options(Configuration.from_dict(base)).working_dir is None
    named = task_executor_options(Configuration.from_dict({**base, "taskmanager.resource-id": "te-7"}))
    assert named.working_dir == "/w/te-7"


def test_a_task_executor_binds_loopback_by_default() -> None:
    options = task_executor_options(
        Configuration.from_dict({"resourcemanager.rpc.address": "h", "resourcemanager.rpc.port": "1"})
    )
    assert (options.bind_address, options.advertised_host) == ("127.0.0.1", "127.0.0.1")


def test_the_error_of_a_missing_resource_manager_address_names_the_option() -> None:
    with pytest.raises(ConfigurationError, match=r"resourcemanager\.rpc\.address"):
        task_executor_options(Configuration())
