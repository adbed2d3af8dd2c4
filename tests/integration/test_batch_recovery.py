"""kill -9 of the JobMaster of a batch job: finished tasks do not run again."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import FIXED_DELAY, Gate, Together, environment, wait_until
from test_killed_job_masters import kill_leader, leader_of

from flinkpy.common import Types
from flinkpy.common.states import JobState
from flinkpy.datastream import MapFunction, RuntimeContext, RuntimeExecutionMode, StreamExecutionEnvironment

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
RECOVERY = {
    "execution.batch.job-recovery.enabled": "true",
    "execution.batch.job-recovery.snapshot.min-pause": "0 ms",
    "execution.batch.job-recovery.previous-worker.recovery.timeout": "10 s",
    "job-event.store.write-buffer.flush-interval": "1 ms",
    "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task": "1 b",
}


class Noted(MapFunction):
    """An identity function that creates a file for each attempt of a subtask that begins."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = str(directory), name

    def open(self, runtime_context: RuntimeContext) -> None:
        subtask = runtime_context.get_index_of_this_subtask()
        path = os.path.join(self._directory, f"{self._name}-{subtask}")
        with open(path, "a") as file:
            file.write("x")

    def map(self, value: Any) -> Any:
        return value


def three_stages(env: StreamExecutionEnvironment, notes: Path, gates: list[Gate], output: Path) -> None:
    """Builds source => reduce => count with two subtasks each. Each stage waits at its gate.

    Each TaskExecutor runs one subtask of each stage.
    """
    notes.mkdir(exist_ok=True)

    def stage(stream: Any, name: str, gate: Gate) -> Any:
        together = stream.map(Noted(notes, name), output_type=PAIR).map(Together(notes.parent / name), output_type=PAIR)
        return together.map(gate.pass_at((3, 3)), output_type=PAIR)

    first = stage(env.from_sequence(0, 9_999).map(lambda x: (x % 10, x), output_type=PAIR), "source", gates[0])
    second = stage(first.key_by(lambda p: p[0]).reduce(min), "reduce", gates[1])
    third = second.key_by(lambda p: p[0]).reduce(lambda a, b: a)
    path = str(output)

    def write(pair: tuple[int, int]) -> tuple[int, int]:
        with open(path, "a") as file:
            file.write(f"{pair[0]},{pair[1]}\n")
        return pair

    stage(third, "last", gates[2]).map(write, output_type=PAIR).filter(lambda p: False).print()


class Stages:
    def __init__(self, cluster: RunningCluster, tmp_path: Path, **properties: str) -> None:
        self.cluster = cluster
        self.notes, self.output = tmp_path / "notes", tmp_path / "out"
        self.gates = []
        for number in range(3):
            directory = tmp_path / f"gate-{number}"
            directory.mkdir()
            self.gates.append(Gate(directory))
        env = environment(cluster, **{**RECOVERY, **properties})
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        three_stages(env, self.notes, self.gates, self.output)
        self.client = env.execute_async("three stages")
        self.job_id = str(self.client.get_job_id())

    def reach(self, stage: int, number: int = 1) -> None:
        """Lets the job run until a task of the stage waits at its gate for the `number`-th time."""
        for gate in self.gates[:stage]:
            gate.open()
        self.gates[stage].wait_for_arrival(number)

    def finish(self) -> Counter[str]:
        """Lets the job finish, checks its output, and returns how often each subtask has started."""
        for gate in self.gates:
            gate.open()
        self.client.get_job_execution_result().result()
        # A subtask that ran twice has written twice.
        assert sorted(set(self.output.read_text().split())) == [f"{key},{key}" for key in range(10)]
        assert self.cluster.client.request_job_status(self.job_id) is JobState.FINISHED
        return Counter({path.name: len(path.read_text()) for path in self.notes.iterdir()})

    @property
    def event_log(self) -> Path:
        # Tasks delete their directories meanwhile: `rglob` would fail, and `walk` goes on.
        name = "job-events.log"
        found = [Path(where, name) for where, _, names in os.walk(self.cluster.run_dir.parent) if name in names]
        return (found or self._wherever())[0]

    def _wherever(self) -> list[Path]:
        leader = leader_of(self.cluster, self.job_id)
        links = [Path(f"/proc/{leader}/fd/{name}") for name in os.listdir(f"/proc/{leader}/fd")]
        targets = [os.readlink(link) for link in links if link.exists()]
        return [Path(target) for target in targets if target.endswith("job-events.log")]


def runs(source: int, reduce: int, last: int) -> Counter[str]:
    """Returns the expected number of runs of every subtask."""
    return Counter(
        {
            f"{name}-{subtask}": count
            for name, count in {"source": source, "reduce": reduce, "last": last}.items()
            for subtask in range(2)
        }
    )


@pytest.mark.parametrize(
    ("stage", "expected"),
    [pytest.param(1, runs(1, 2, 1), marks=pytest.mark.chaos), (2, runs(1, 1, 2))],
    ids=["in the second stage", "in the last stage"],
)
def test_only_unfinished_tasks_run_again(
    cluster: RunningCluster, tmp_path: Path, stage: int, expected: Counter[str]
) -> None:
    stages = Stages(cluster, tmp_path)
    stages.reach(stage)
    wait_for_events(stages, 2 * stage)
    kill_leader(cluster, stages.job_id)
    stages.reach(stage, 2)

    assert unfinished_as_once(stages.finish(), expected)


def unfinished_as_once(found: Counter[str], expected: Counter[str]) -> bool:
    """Compares the numbers of runs. The subtask of the interrupted stage that did not wait at the gate may have
    finished.
    """
    name = next((name.partition("-")[0] for name, count in expected.items() if count == 2), "")
    again = [count for key, count in found.items() if key.startswith(name)]
    rest = {key: count for key, count in found.items() if not key.startswith(name)}
    assert max(again) == 2, found
    assert rest == {key: count for key, count in expected.items() if not key.startswith(name)}, found
    return True


def wait_for_events(stages: Stages, number: int) -> None:
    """Waits until the ends of `number` tasks are in the log on disk."""
    from flinkpy._proto import job_event_pb2
    from flinkpy.jobmaster.job_event_store.job_event_store import read_log

    def finished() -> int:
        payloads, _ = read_log(stages.event_log)
        events = [job_event_pb2.JobEvent.FromString(payload) for payload in payloads]
        return sum(event.WhichOneof("event") == "finished" for event in events)

    wait_until(lambda: finished() >= number, f"{number} recorded ends of tasks")


def test_a_source_resumes_with_the_unfinished_splits(cluster: RunningCluster, tmp_path: Path) -> None:
    stages = Stages(cluster, tmp_path)
    stages.reach(0)
    wait_for_events(stages, 1)
    kill_leader(cluster, stages.job_id)
    stages.reach(0, 2)

    found = stages.finish()
    assert sorted(found[name] for name in ("source-0", "source-1")) == [1, 2], found


def test_a_job_without_job_recovery_starts_over(cluster: RunningCluster, tmp_path: Path) -> None:
    stages = Stages(cluster, tmp_path, **{**FIXED_DELAY, "execution.batch.job-recovery.enabled": "false"})
    stages.reach(1)
    kill_leader(cluster, stages.job_id)
    stages.reach(1, 2)

    assert stages.finish()["source-0"] == 2


def test_a_damaged_log_is_set_aside_and_the_job_starts_over(cluster: RunningCluster, tmp_path: Path) -> None:
    stages = Stages(cluster, tmp_path)
    stages.reach(1)
    wait_for_events(stages, 2)
    log = stages.event_log
    os.kill(leader_of(cluster, stages.job_id), signal.SIGSTOP)
    content = bytearray(log.read_bytes())
    content[60] ^= 0xFF
    log.write_bytes(content)
    kill_leader(cluster, stages.job_id)
    stages.reach(1, 2)
    aside = log.with_name(f"{log.name}.damaged")
    assert aside.read_bytes() == bytes(content)

    assert stages.finish()["source-0"] == 2
    assert re.search("the recorded (job )?events .*cannot be used", cluster.log("dispatcher")) or aside.exists()


def test_the_results_of_a_lost_task_executor_are_produced_again(cluster: RunningCluster, tmp_path: Path) -> None:
    stages = Stages(cluster, tmp_path, **{"execution.batch.job-recovery.previous-worker.recovery.timeout": "2 s"})
    stages.reach(2)
    wait_for_events(stages, 4)
    # The JobMaster is suspended first. Otherwise it would notice the loss of the TaskExecutor and fail the job, which
    # has no restart strategy.
    os.kill(leader_of(cluster, stages.job_id), signal.SIGSTOP)
    cluster.kill("taskexecutor-1")
    kill_leader(cluster, stages.job_id)
    stages.reach(2, 2)

    found = stages.finish()
    # Each TaskExecutor had one task of each stage. Results of the sources were released after they were read.
    assert sorted(count for name, count in found.items() if name.startswith("reduce")) == [1, 2]
    assert found["source-0"] == found["source-1"] == 2
