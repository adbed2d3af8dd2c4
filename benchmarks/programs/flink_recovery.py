"""The job of recovery_job.py on a standalone Flink cluster, with Flink's own defaults for noticing a dead TaskManager.

Runs in PyFlink's environment. Prints one line of JSON: how long no output came after kill -9 of a TaskManager (s).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pyflink
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

HOME = Path(pyflink.__file__).parent
PAYLOAD_CHARACTERS = 1000
#: Shorter pauses are no outage: the surviving TaskManager continues until the dead one is noticed.
SILENCE_S = 2.0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def configuration(scratch: Path, rest_port: int) -> None:
    conf = scratch / "conf"
    shutil.copytree(HOME / "conf", conf)
    (conf / "config.yaml").write_text(
        "\n".join(
            [
                "jobmanager.rpc.address: localhost",
                "jobmanager.bind-host: localhost",
                f"jobmanager.rpc.port: {free_port()}",
                f"rest.port: {rest_port}",
                "rest.address: localhost",
                "rest.bind-address: localhost",
                "taskmanager.bind-host: localhost",
                "taskmanager.host: localhost",
                "jobmanager.memory.process.size: 1600m",
                "taskmanager.memory.process.size: 5g",
                "taskmanager.numberOfTaskSlots: 1",
            ]
        )
        + "\n"
    )


def start(scratch: Path, script: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = dict(os.environ, FLINK_CONF_DIR=str(scratch / "conf"), FLINK_LOG_DIR=str(scratch / "log"))
    with (scratch / f"{script}-{time.monotonic_ns()}.out").open("wb") as out:
        return subprocess.Popen(
            ["bash", str(HOME / "bin" / script), "start-foreground", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def get(rest_port: int, path: str) -> dict:
    with urllib.request.urlopen(f"http://localhost:{rest_port}{path}", timeout=10) as answer:
        return json.load(answer)


def wait_for(what, condition, timeout_s: float = 180) -> None:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            if condition():
                return
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.2)
    raise RuntimeError(f"{what}: not within {timeout_s} s")


class Output:
    """Counts the rows the print sink wrote; the TaskManagers log into the same files."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._read: dict[Path, int] = {}
        self._rows = 0

    def rows(self) -> int:
        for path in self._scratch.glob("taskmanager.sh-*.out"):
            with open(path, "rb") as file:
                file.seek(self._read.get(path, 0))
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            self._rows += whole.count(b"+I[") + whole.count(b"+U[")
        return self._rows


def silence_after(output: Output, kill, quiet_s: float, timeout_s: float) -> float:
    killed = time.monotonic()
    kill()
    size, last = output.rows(), time.monotonic()
    while time.monotonic() - killed < timeout_s:
        time.sleep(0.005)
        grown, now = output.rows(), time.monotonic()
        if grown != size:
            if now - last >= quiet_s:
                return now - killed
            size, last = grown, now
    raise RuntimeError(f"no output came back within {timeout_s} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--rate", type=int, default=20_000)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    scratch = Path(tempfile.mkdtemp())
    rest_port = free_port()
    configuration(scratch, rest_port)
    processes = [start(scratch, "jobmanager.sh")]
    try:
        wait_for("JobManager", lambda: get(rest_port, "/overview"))
        processes += [start(scratch, "taskmanager.sh") for _ in range(3)]  # one more than the job needs
        wait_for("TaskManagers", lambda: get(rest_port, "/overview")["slots-total"] == 3)
        config = Configuration()
        for key, value in (
            ("execution.target", "remote"),
            ("rest.address", "localhost"),
            ("rest.port", str(rest_port)),
            ("parallelism.default", "2"),
            ("state.backend.type", "hashmap"),
            ("execution.checkpointing.interval", "2 s"),
            ("execution.checkpointing.dir", f"file://{scratch}/checkpoints"),
        ):
            config.set_string(key, value)
        settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(config).build()
        table_env = TableEnvironment.create(settings)
        table_env.execute_sql(
            f"""CREATE TABLE source (k BIGINT, payload STRING) WITH ('connector' = 'datagen',
            'rows-per-second' = '{options.rate}', 'fields.k.min' = '0', 'fields.k.max' = '{options.keys - 1}',
            'fields.payload.length' = '{PAYLOAD_CHARACTERS}')"""
        )
        table_env.execute_sql("CREATE TABLE sink (k BIGINT, c BIGINT) WITH ('connector' = 'print')")
        table_env.execute_sql(
            """INSERT INTO sink SELECT k, c FROM (SELECT k, COUNT(*) c, LAST_VALUE(payload) p FROM source GROUP BY k)
            WHERE MOD(c + k, 100) = 0 AND CHAR_LENGTH(p) > 0"""
        )
        job_id = get(rest_port, "/jobs")["jobs"][0]["id"]
        output = Output(scratch)
        wait_for("output", lambda: output.rows() > 0)
        time.sleep(2 * options.keys / options.rate + 3)  # random keys: most have occurred twice after these records
        done = get(rest_port, f"/jobs/{job_id}/checkpoints")["counts"]["completed"]
        wait_for(
            "checkpoints", lambda: get(rest_port, f"/jobs/{job_id}/checkpoints")["counts"]["completed"] >= done + 2
        )
        latest = get(rest_port, f"/jobs/{job_id}/checkpoints")["latest"]["completed"]
        vertices = get(rest_port, f"/jobs/{job_id}")["vertices"]
        busy = {
            subtask["taskmanager-id"]
            for vertex in vertices
            for subtask in get(rest_port, f"/jobs/{job_id}/vertices/{vertex['id']}")["subtasks"]
        }
        managers = get(rest_port, "/taskmanagers")["taskmanagers"]
        victim = next(m for m in managers if m["id"] in busy)
        pid = pid_listening_on(victim["dataPort"])
        outage_s = silence_after(output, lambda: os.kill(pid, signal.SIGKILL), SILENCE_S, 180)
        sys.stdout.write(json.dumps({"outage_s": outage_s, "state_bytes": latest["state_size"]}) + "\n")
        sys.stdout.flush()
    finally:
        for process in processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # the killed process
        shutil.rmtree(scratch, ignore_errors=True)


def pid_listening_on(port: int) -> int:
    """Finds in /proc the socket with this local port and returns the process that owns it."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if any(os.readlink(fd) in inodes for fd in (entry / "fd").iterdir()):
                    return int(entry.name)
            except OSError:
                continue  # it has just ended
    raise RuntimeError(f"nobody listens on port {port}")


if __name__ == "__main__":
    main()
