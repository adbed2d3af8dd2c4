"""Keys that are equal in Python but differ in type are separate keys in a running job and after a restore."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from clusters import RunningCluster
from job_support import environment, wait_until
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink, committed_records

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.errors import FlinkError
from flinkpy.common.states import JobState
from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkpy.datastream.state import ValueStateDescriptor

#: A new NaN object for each record, as a parser would create.
KEYS = (4, 4.0, 1, True, Decimal(1), 1.0, "nan", 0.0, -0.0, (1, 2), (1, 2.0))
RECORDS_PER_KEY = 200
TRIPLE = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        assert type(ctx.get_current_key()) is (float if KEYS[value[0]] == "nan" else type(KEYS[value[0]]))
        yield value[0], value[1], count


def key_of(record):
    key = KEYS[record[0]]
    return float(key) if key == "nan" else key


def start(cluster: RunningCluster, directory: Path, parallelism: int, **settings: str) -> str:
    checkpoints = {"execution.checkpointing.interval": "100 ms", "execution.checkpointing.dir": f"{directory}/chk"}
    env = environment(cluster, parallelism, **checkpoints, **settings)
    source = SequencePerKeySource(len(KEYS), RECORDS_PER_KEY, 2_000, directory / "hurry")
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = numbers.key_by(key_of).process(Count(), TRIPLE).uid("count")
    counted.sink_to(TwoPhaseSink(str(directory / "out"))).uid("out")
    return str(env.execute_async("keys of many types").get_job_id())


def test_a_savepoint_restored_with_another_parallelism_and_backend_has_every_key(
    shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    client, out = shared_cluster.client, tmp_path / "out"
    job_id = start(shared_cluster, tmp_path, 2, **{"state.backend.type": "hashmap"})
    wait_until(lambda: len(list(committed_records(out))) >= 200, "200 committed records")
    savepoint = client.stop_with_savepoint(job_id, str(tmp_path / "savepoints"))
    before = len(list(committed_records(out)))
    assert before < len(KEYS) * RECORDS_PER_KEY, "the job was stopped in the middle"

    (tmp_path / "hurry").touch()
    settings = {"state.backend.type": "rocksdb", "execution.state-recovery.path": savepoint}
    job_id = start(shared_cluster, tmp_path, 1, **settings)

    result = client.wait_for_result(job_id)
    assert JobState(result.status) is JobState.FINISHED, result.error
    expected = [(key, number, number + 1) for key in range(len(KEYS)) for number in range(RECORDS_PER_KEY)]
    assert sorted(committed_records(out)) == expected


@pytest.mark.parametrize(("parallelism", "mode"), [(1, "STREAMING"), (2, "STREAMING"), (2, "BATCH")])
def test_the_error_of_a_mutable_key_names_its_operator_and_value(
    shared_cluster: RunningCluster, parallelism: int, mode: str
) -> None:
    env = environment(shared_cluster, parallelism, **{"execution.runtime-mode": mode})
    keyed = env.from_collection([("a", 1), ("b", 2)]).key_by(lambda record: [record[0]])
    keyed.reduce(lambda one, other: one).print()

    with pytest.raises(FlinkError) as raised:
        env.execute("keys that can change")
    told = str(raised.value)
    assert "a key of type list cannot be a key, because it can change: use a tuple (the key was ['a'])" in told
    assert "Reduce" in told or "Source" in told


def test_a_typed_record_is_routed_by_the_key_that_its_consumer_sees(shared_cluster: RunningCluster) -> None:
    """An int in a DOUBLE field is a float behind the exchange, and so is the key."""
    env: StreamExecutionEnvironment = environment(shared_cluster, 2)
    kind = Types.TUPLE([Types.DOUBLE(), Types.FLOAT()])
    numbers = env.from_collection(list(range(280)), Types.LONG())
    records = numbers.map(lambda n: (n // 2 % 7 if n % 2 else float(n // 2 % 7), 0.1), kind)

    class Where(KeyedProcessFunction):
        def open(self, runtime_context):
            self._subtask = runtime_context.get_index_of_this_subtask()

        def process_element(self, value, ctx):
            yield ctx.get_current_key(), self._subtask

    placed = records.key_by(lambda record: (record[0], record[1])).process(Where())
    with placed.execute_and_collect() as results:
        found = list(results)
    assert len(found) == 280
    assert len(set(map(repr, found))) == 7, "each key is one key, and lives in one subtask"
