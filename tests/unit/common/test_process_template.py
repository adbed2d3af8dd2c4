from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import psutil

# A template is forked from a process with one thread. The process of the tests may have several.
_PROGRAM = """
import asyncio, json, os, random, signal, sys, tempfile, threading
from flinkpy.common.child_process import ChildOutput, spawn_child
from flinkpy.common.process_template import start_template

def run(command):
    if command[-1] == "sleep":
        signal.pause()
    print(json.dumps({
        "command": command,
        "shown": open("/proc/self/cmdline").read().split("\\0")[:-1],
        "environment shown": "COLOUR=blue" in open("/proc/self/environ").read().split("\\0"),
        "colour": os.environ.get("COLOUR"),
        "temporary": tempfile.gettempdir(),
        "random": random.random(),
        "parent": os.getppid(),
        "session": os.getsid(0) == os.getpid(),
        "input": sys.stdin.read(),
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "prepared": prepared,
        "secret": os.read(os.dup(int(os.environ["HANDED"])), 99).decode() if "HANDED" in os.environ else None,
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in os.listdir("/proc/self/fd")
                              if os.path.exists(f"/proc/self/fd/{fd}")),
    }))
    sys.exit(7)

prepared = False
def prepare():
    global prepared
    prepared = True

def start():
    return start_template("template", prepare, run)

async def fork(template, *words, **options):
    return await spawn_child(
        [sys.executable, *words], name="fork", output=ChildOutput.KEEP, template=template,
        environment={"COLOUR": "blue", **options.pop("environment", {})}, **options,
    )
"""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM + program], check=False, capture_output=True, text=True, timeout=60
    )


def _told(program: str) -> Any:
    done = _run(program)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_forked_process_looks_like_a_process_started_by_exec(tmp_path):
    told = _told(
        f"""
template = start()
async def main():
    read, write = os.pipe()
    os.write(write, b"a secret")
    tempfile.gettempdir()
    child = await fork(
        template, "-m", "word", temporary_directory={str(tmp_path)!r},
        pass_fds=[read], environment={{"HANDED": str(read)}},
    )
    ending = await child.wait()
    print(json.dumps({{**json.loads(ending.last_output), "me": os.getpid(), "code": ending.return_code}}))
asyncio.run(main())
template.close()
"""
    )

    assert told["shown"] == told["command"] == [sys.executable, "-m", "word"]
    assert told["colour"] == "blue" and told["environment shown"]
    assert told["temporary"] == str(tmp_path)
    assert told["parent"] == told["me"]
    assert told["session"] and told["interrupt"] and told["prepared"]
    assert told["input"] == ""
    assert told["secret"] == "a secret"
    assert told["code"] == 7
    assert "socket" not in told["descriptors"], "it can neither ask its template nor answer for it"


def test_a_template_closes_the_descriptors_handed_to_its_parent():
    read, write = os.pipe()
    program = f"""
template = start()
os.close({write})
print(template.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[write]
    ) as process:
        os.close(write)
        assert process.stdout is not None
        process.stdout.readline()
        assert os.read(read, 1) == b""
        process.communicate()
    os.close(read)


def test_forked_processes_do_not_share_their_random_numbers():
    told = _told(
        """
template = start()
async def main():
    endings = [await (await fork(template, "word")).wait() for _ in range(2)]
    print(json.dumps([json.loads(ending.last_output)["random"] for ending in endings]))
asyncio.run(main())
template.close()
"""
    )
    assert told[0] != told[1]


def test_a_killed_fork_reports_its_signal_and_a_fork_outlives_its_template():
    told = _told(
        """
template = start()
async def main():
    child = await fork(template, "sleep")
    template.close()
    os.kill(child.pid, 0)
    child.kill()
    print(json.dumps((await child.wait()).description))
asyncio.run(main())
"""
    )
    assert told == "killed by SIGKILL"


def test_a_forked_process_does_nothing_before_begin():
    told = _told(
        """
template = start()
async def main():
    read, write = os.pipe()
    forked = await template.fork([sys.executable, "word"], dict(os.environ), {}, write)
    os.close(write)
    forked.abandon()
    _, status = await asyncio.to_thread(os.waitpid, forked.pid, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), os.read(read, 99).decode()]))
asyncio.run(main())
template.close()
"""
    )
    assert told == [1, ""]


def test_a_process_is_started_by_exec_when_its_template_has_ended():
    told = _told(
        """
template = start()
async def main():
    os.kill(template.pid, signal.SIGKILL)
    child = await fork(template, "-c", "print(0)")
    print(json.dumps([(await child.wait()).last_output, template.is_open]))
asyncio.run(main())
"""
    )
    assert told == ["0", False]


def test_a_process_with_threads_has_no_template():
    told = _told(
        """
thread = threading.Timer(60, print)
thread.start()
print(json.dumps(start() is None))
thread.cancel()
"""
    )
    assert told is True


def test_a_template_with_threads_refuses_to_fork():
    told = _told(
        """
def prepare():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
template = start()
async def main():
    child = await fork(template, "-c", "print('anew')")
    print(json.dumps([(await child.wait()).last_output, template.is_open]))
asyncio.run(main())
"""
    )
    assert told == ["anew", False]


def test_template_and_forks_die_with_a_killed_parent():
    done = _run(
        """
from flinkpy.common.process import die_with_parent_if_asked
def sleep(command):
    die_with_parent_if_asked()  # the first that every process of flinkpy does
    run(command)
template = start_template("template", prepare, sleep)
async def main():
    child = await fork(template, "sleep")
    print(template.pid, child.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    )

    assert done.returncode == -signal.SIGKILL
    left = [psutil.Process(int(pid)) for pid in done.stdout.split() if psutil.pid_exists(int(pid))]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert len(done.stdout.split()) == 2 and alive == []
