"""Log records of jobs that share a TaskExecutor: each names its job and task, in text and in JSON."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import FIXED_DELAY, environment, wait_until

from flinkpy.common import Time
from flinkpy.common.errors import JobExecutionError
from flinkpy.datastream import AsyncDataStream, AsyncFunction, MapFunction, RuntimeContext

RECORDS = 8
FORGED = "2026-01-01 00:00:00,000 INFO  [forged] x - second line"
#: Every way in which a function can write a line.
WAYS = {
    "print", "stderr", "logging", "warnings", "thread", "pool", "coroutine", "to_thread", "exception", "async",
    "async print",
}  # fmt: skip
#: Python tells of the start of a thread since 3.12.
THREADS_ARE_FOLLOWED = sys.version_info >= (3, 12)


class Talk(MapFunction):
    """Says in every way which job and subtask it belongs to."""

    def __init__(self, name: str, *, fails: bool) -> None:
        self._name = name
        self._fails = fails

    def open(self, runtime_context: RuntimeContext) -> None:
        self._who = f"of {self._name} {runtime_context.get_index_of_this_subtask()}"

    def map(self, value: int) -> int:
        log, who = logging.getLogger("my.module"), self._who
        print(f"print {who}")  # noqa: T201
        print(f"stderr {who}", file=sys.stderr)  # noqa: T201
        log.warning("logging %s\n%s", who, FORGED)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(f"warnings {who}", stacklevel=1)
        run = (lambda call, *args: call(*args)) if THREADS_ARE_FOLLOWED else contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(log.warning, "thread %s", who))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(contextvars.copy_context().run, print, f"pool {who}").result()

        async def in_coroutines() -> None:
            log.warning("coroutine %s", who)
            await asyncio.to_thread(print, f"to_thread {who}")

        asyncio.run(in_coroutines())
        try:
            raise ValueError("the value is bad")
        except ValueError:
            log.exception("exception %s", who)
        if self._fails and value >= RECORDS - 2:
            raise RuntimeError(f"failure {who}")
        return value


class Ask(AsyncFunction):
    def __init__(self, name: str) -> None:
        self._name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        self._who = f"of {self._name} {runtime_context.get_index_of_this_subtask()}"

    async def async_invoke(self, value: int) -> list[Any]:
        await asyncio.sleep(0)
        logging.getLogger("my.async").warning("async %s", self._who)
        print(f"async print {self._who}")  # noqa: T201
        return [value]


def start_job(cluster: RunningCluster, name: str, *, fails: bool) -> Any:
    env = environment(cluster, parallelism=2)
    numbers = env.from_sequence(0, RECORDS - 1).map(Talk(name, fails=fails)).name(f"Talk of {name}")
    asked = AsyncDataStream.unordered_wait(numbers.disable_chaining(), Ask(name), Time.seconds(30), 10)
    asked.name("Ask").map(lambda value: value).disable_chaining().print()
    return env.execute_async(name)


def records_of(cluster: RunningCluster, job_id: str, *options: str) -> list[dict[str, Any]]:
    shown = cluster.flinkpy("logs", job_id, "--json", *options)
    assert shown.returncode == 0 and shown.stderr == "", shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


@pytest.mark.parametrize("form", ["text", "json"])
def test_every_line_of_two_jobs_in_one_process_names_its_job_and_task(start_cluster: StartCluster, form: str) -> None:
    # Small files, so that the log is rotated many times while it is written.
    cluster = start_cluster(1, 4, {"env.log.format": form, "env.log.max-size": "10 kb", "env.log.max": "1000"})
    jobs = {name: start_job(cluster, name, fails=name == "second") for name in ("first", "second")}
    jobs["first"].get_job_execution_result().result()
    with pytest.raises(JobExecutionError):
        jobs["second"].get_job_execution_result().result()
    ids = {name: str(client.get_job_id()) for name, client in jobs.items()}
    assert len(list(cluster.run_dir.glob("taskexecutor-1.log.*"))) > 2
    for name, job_id in ids.items():
        records = records_of(cluster, job_id)
        assert {(one["job_id"], one["job_name"] or name) for one in records} == {(job_id, name)}
        spoken = Counter()
        for one in records:
            found = re.match(r"(?:.*UserWarning: )?([a-z_ ]+) of (first|second) ([01])$", one["message"].split("\n")[0])
            if found is None:
                continue
            way, of, subtask = found.groups()
            vertex = "Ask" if way.startswith("async") else f"Talk of {name}"
            assert of == name and one["task"] == f"{vertex} ({int(subtask) + 1}/2)#0", one
            spoken[way] += 1
        if name == "first":
            assert spoken == dict.fromkeys(WAYS, RECORDS)
        # The second job may fail before a record reaches its asynchronous function.
        assert {way for way in WAYS if not way.startswith("async")} <= set(spoken) <= WAYS
        failures = [one for one in records if f"RuntimeError: failure of {name}" in one["message"]]
        assert bool(failures) == (name == "second")
        assert any(one["task"].startswith("Talk of second") for one in failures) == (name == "second")
        assert {one["logger"] for one in records if one["process"].startswith("jobmaster-")} >= {
            "flinkpy.jobmaster.job_master"
        }
        shown = [one for one in records if "exception of" in one["message"]]
        if form == "json":
            assert {one["fields"]["exception"]["type"] for one in shown} == {"ValueError"}
            assert {one["fields"]["exception"]["frames"][-1]["function"] for one in shown} == {"map"}
            assert all(
                one["fields"]["flink-subtask-index"] in (0, 1) and one["fields"]["flink-vertex-id"] for one in shown
            )
        assert "forged" not in {one["thread"] for one in records}
    one_task = records_of(cluster, ids["first"], "--task", "ask (1/2)", "--level", "WARN")
    assert {(one["task"], one["level"]) for one in one_task} == {("Ask (1/2)#0", "WARNING")}
    last = cluster.flinkpy("logs", ids["first"], "--tail", "2", "--grep", "coroutine of").stdout.splitlines()
    assert len(last) == 2 and all(
        re.search(r"\[Talk of first \(./2\)#0\] my.module - coroutine", line) for line in last
    )


class Count(MapFunction):
    """Logs each number, and then notes in a file that it has logged it."""

    def __init__(self, name: str, noted: Path) -> None:
        self._name = name
        self._noted = noted

    def open(self, runtime_context: RuntimeContext) -> None:
        self._attempt = runtime_context.get_attempt_number()
        self._file = self._noted.open("a", buffering=1)

    def map(self, value: int) -> int:
        log = logging.getLogger("my.module")
        log.debug("detail %d of %s", value, self._name)
        log.info("number %d of %s in attempt %d", value, self._name, self._attempt)
        self._file.write(f"{self._attempt} {value}\n")
        time.sleep(0.002)
        return value


def noted(path: Path, attempt: int) -> list[int]:
    """Returns the numbers that an attempt has logged."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith(f"{attempt} ") and len(line.split()) == 2]


def test_levels_change_in_running_jobs_and_a_killed_process_loses_no_line(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    options = {"env.log.max-size": "20 kb", "env.log.max": "1000"}
    cluster = start_cluster(1, 2, options, restart_services=True)
    files = {name: tmp_path / name for name in ("first", "second")}
    ids = {}
    for name, path in files.items():
        env = environment(cluster, parallelism=1, **FIXED_DELAY)
        env.from_sequence(0, 10**9).map(Count(name, path)).name("Count").disable_chaining()
        ids[name] = str(env.execute_async(name).get_job_id())
    wait_until(lambda: all(len(noted(path, 0)) > 50 for path in files.values()), "both jobs run")
    changed = cluster.flinkpy("log-level", "--job", ids["first"], "--for", "1 h", "my.module", "DEBUG")
    assert changed.returncode == 0 and f"set for job {ids['first']}" in changed.stdout, changed.stderr
    count = len(noted(files["first"], 0))
    wait_until(lambda: len(noted(files["first"], 0)) > count + 50, "the first job goes on")
    back = cluster.flinkpy("log-level", "--job", ids["first"], "my.module", "RESET")
    assert "set for job" not in back.stdout, back.stdout

    cluster.kill("taskexecutor-1")
    killed = {name: noted(path, 0) for name, path in files.items()}
    wait_until(lambda: all(len(noted(path, 1)) > 20 for path in files.values()), "both jobs run again")
    for name, job_id in ids.items():
        cluster.flinkpy("cancel", job_id)
        found: dict[int, list[int]] = {0: [], 1: []}
        details = 0
        for one in records_of(cluster, job_id, "--task", "Count"):
            details += one["message"].startswith("detail")
            if line := re.fullmatch(rf"number (\d+) of {name} in attempt (\d)", one["message"]):
                found[int(line[2])].append(int(line[1]))
                assert one["task"] == f"Count (1/1)#{line[2]}"
        assert found[0][: len(killed[name])] == killed[name]
        assert len(found[1]) >= 20 and sorted(set(found[1])) == found[1]
        assert (details > 40) == (name == "first"), details
