"""Time slices and niceness, in processes and threads of their own: they last as long as these."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading

import pytest

from flinkpy.common import cpu_scheduling
from flinkpy.common.cpu_scheduling import DEFAULT_SLICE_NS, SERVICE_SLICE_NS, bind_to_cpus, request_time_slice
from flinkpy.common.errors import ConfigurationError


def in_thread(check: object) -> object:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(check()))  # type: ignore[operator]
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="other system calls")
def test_any_user_may_ask_for_a_slice_and_give_it_back() -> None:
    def ask() -> tuple[bool, bool, int]:
        return request_time_slice(SERVICE_SLICE_NS), request_time_slice(DEFAULT_SLICE_NS), os.sched_getscheduler(0)

    assert in_thread(ask) == (True, True, os.SCHED_OTHER)


def test_a_thread_with_another_policy_keeps_it() -> None:
    def ask() -> tuple[bool, int]:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return request_time_slice(SERVICE_SLICE_NS), os.sched_getscheduler(0)

    assert in_thread(ask) == (False, os.SCHED_BATCH)


def test_an_unknown_machine_keeps_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_scheduling.platform, "machine", lambda: "m68k")
    assert not request_time_slice(SERVICE_SLICE_NS)


def test_a_process_gives_way_by_its_niceness() -> None:
    code = "import os; from flinkpy.common.cpu_scheduling import raise_niceness as r; r({}); print(os.nice(0))"
    before = os.nice(0)
    for steps in (0, 3):
        process = subprocess.run(
            [sys.executable, "-c", code.format(steps)], check=True, capture_output=True, start_new_session=True
        )
        assert int(process.stdout) == min(19, before + steps)


def test_a_process_is_bound_to_cpus() -> None:
    cpu = min(os.sched_getaffinity(0))
    code = f"import os; from flinkpy.common.cpu_scheduling import bind_to_cpus; bind_to_cpus('{cpu}-{cpu}'); "
    command = [sys.executable, "-c", code + "print(*os.sched_getaffinity(0))"]
    assert int(subprocess.run(command, check=True, capture_output=True).stdout) == cpu


@pytest.mark.parametrize(
    ("text", "message"), [("0-", "is no list of CPUs"), ("3-1", "is no list"), ("9999", "cannot use the CPUs 9999; it")]
)
def test_cpus_that_do_not_exist_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        bind_to_cpus(text)
