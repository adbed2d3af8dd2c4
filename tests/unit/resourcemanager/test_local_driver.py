from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import pytest

from flinkpy.common.child_process import ChildOutput, ProcessEnding, spawn_child
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.ids import ResourceID
from flinkpy.resourcemanager.driver.local import LocalTaskExecutorDriver
from flinkpy.resourcemanager.driver.resource_manager_driver import StandaloneDriver


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", code]


class ScriptDriver(LocalTaskExecutorDriver):
    """Workers are lines of Python instead of TaskExecutors."""

    code = "import signal; signal.pause()"

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return python(self.code)


def test_exit_statuses_are_described_in_words() -> None:
    assert str(ProcessEnding(3)) == "exit code 3"
    assert str(ProcessEnding(-9)) == "killed by SIGKILL"
    assert str(ProcessEnding(-250)) == "killed by signal 250"
    assert "last output:\nImportError" in str(ProcessEnding(1, "ImportError"))


def test_the_error_of_a_failed_child_contains_its_last_lines() -> None:
    async def body() -> ProcessEnding:
        code = "import sys; print('a' * 200_000, flush=True); print('the reason', file=sys.stderr); sys.exit(3)"
        child = await spawn_child(python(code), name="child", output=ChildOutput.KEEP)
        return await child.wait()

    ending = asyncio.run(body())
    assert ending.return_code == 3
    assert ending.last_output.splitlines()[-1] == "the reason"


def test_a_child_that_ignores_the_request_is_killed_after_the_grace() -> None:
    async def body() -> ProcessEnding:
        code = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
        child = await spawn_child(python(code), name="child", output=ChildOutput.KEEP)
        while not child._lines:
            await asyncio.sleep(0.01)
        return await child.stop(0.1)

    assert asyncio.run(body()).description == "killed by SIGKILL"


def test_a_worker_is_started_with_its_name_free_ports_and_the_managers_address() -> None:
    driver = LocalTaskExecutorDriver({"taskmanager.rpc.port": "6122", "taskmanager.numberOfTaskSlots": "2"})
    driver.start("127.0.0.1:4711", lambda *_: None)
    assert driver._command(["-D", "a=b"])[1:] == ["-m", "flinkpy.cli.main", "taskexecutor", "-D", "a=b"]
    assert driver._settings(ResourceID("w1")) == {
        "resourcemanager.rpc.address": "127.0.0.1",
        "resourcemanager.rpc.port": "4711",
        "taskmanager.data.port": "0",
        "taskmanager.numberOfTaskSlots": "2",
        "taskmanager.resource-id": "w1",
        "taskmanager.rpc.port": "0",
    }


def test_the_end_of_a_worker_is_reported_with_its_cause_and_close_ends_the_others() -> None:
    ended: list[tuple[str, str]] = []

    async def body() -> None:
        driver = ScriptDriver({}, output=ChildOutput.KEEP)
        told = asyncio.Event()

        def on_terminated(resource_id: ResourceID, ending: str) -> None:
            ended.append((str(resource_id), ending))
            told.set()

        driver.start("127.0.0.1:1", on_terminated)
        await driver.start_worker(ResourceID("stays"))
        await driver.stop_worker(ResourceID("nobody"))
        driver.code = "raise SystemExit(7)"
        await driver.start_worker(ResourceID("fails"))
        await told.wait()
        assert ended == [("fails", "exit code 7")]
        assert set(driver.worker_pids) == {ResourceID("stays")}
        await driver.close()
        assert driver.worker_pids == {}

    asyncio.run(body())
    assert ended[1] == ("stays", "killed by SIGTERM")


def test_a_standalone_driver_says_how_to_start_workers() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"flinkpy\.resourcemanager\.driver"):
        asyncio.run(StandaloneDriver().start_worker(ResourceID("w1")))
