"""Processes that end with their parent, and process identities that outlive their pids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready
from flinkpy.common.errors import ExternalError
from flinkpy.common.process import ProcessIdentity, stop_children, terminate_and_wait

PARENT = """
    import subprocess, sys, time
    from flinkpy.common.process import environment_for_child
    child = subprocess.Popen(
        [sys.executable, "-c", "import flinkpy.common.process as p, time; p.die_with_parent_if_asked(); "
         "print('tied', flush=True); time.sleep(60)"],
        env=environment_for_child(), stdout=subprocess.PIPE, text=True)
    print(child.stdout.readline().strip(), child.pid, flush=True)
    time.sleep(60)
"""


def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(PARENT)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        word, pid = parent.stdout.readline().split()
        assert word == "tied"
        child = ProcessIdentity.of(int(pid))
        assert child is not None and child.is_alive
        parent.kill()
        assert child.wait_exit(5)
    assert not child.is_alive


def test_a_child_whose_parent_has_already_ended_ends_at_once() -> None:
    code = "import flinkpy.common.process as p; p.die_with_parent_if_asked(); print('lives')"
    environment = {**os.environ, "FLINKPY_PARENT_PID": str(os.getppid())}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (-signal.SIGKILL, "")


def test_a_process_that_ignores_sigterm_is_killed() -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "deaf\n"
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None
        assert terminate_and_wait([identity], grace_s=0.2) == [identity]
        assert process.wait(timeout=30) == -signal.SIGKILL


def test_a_reused_pid_is_not_taken_for_the_ended_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait(timeout=30)
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    former = ProcessIdentity(me.pid, me.start_ticks - 1)
    assert not former.is_alive
    assert not former.send_signal(signal.SIGTERM)
    assert former.wait_exit(0.1)


def test_the_error_of_a_service_that_cannot_start_contains_its_own_reason(tmp_path: Path) -> None:
    spec = ServiceSpec("rm", "resourcemanager", properties={"heartbeat.interval": "soon"}, log=tmp_path / "rm.log")
    process = ServiceProcess(spec)
    try:
        with pytest.raises(
            ExternalError, match=r"rm could not start: option `heartbeat.interval` has the value `soon`"
        ):
            wait_until_ready([process], timeout_s=30)
    finally:
        stop_children([process.popen], grace_s=5)
        process.close()


def test_the_error_of_a_service_that_crashes_contains_the_last_line_of_its_log(tmp_path: Path) -> None:
    spec = ServiceSpec("x", "no-such-verb", log=tmp_path / "x.log")
    process = ServiceProcess(spec)
    try:
        with pytest.raises(ExternalError, match=r"x could not start: x ended with status 2: .*no-such-verb"):
            wait_until_ready([process], timeout_s=30)
    finally:
        stop_children([process.popen], grace_s=5)
        process.close()
