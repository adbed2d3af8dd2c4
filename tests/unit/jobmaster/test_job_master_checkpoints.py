"""Checkpoints of a JobMaster between testing gateways: real storage, make-believe tasks."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import cloudpickle
import pytest
from jobmaster_fakes import job_graph, source_and_sink, vertex
from testing_gateways import CONTEXT, Process

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import dispatcher_pb2
from flinkpy.checkpoint.metadata import decode_metadata
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import CheckpointError, ConfigurationError, FunctionError, RpcTimeoutError
from flinkpy.rpc.error_codec import error_to_proto


def in_loop(test):
    """Run an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


class CheckpointedProcess(Process):
    """With tasks that acknowledge when the test says so."""

    def __init__(self, graph, tmp_path, configuration=None, recovery=None):
        self.checkpoint_directory = tmp_path / "checkpoints"
        super().__init__(
            graph,
            tmp_path,
            {
                "execution.checkpointing.interval": "10 ms",
                "execution.checkpointing.dir": str(self.checkpoint_directory),
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "100",
                "restart-strategy.fixed-delay.delay": "0 ms",
                **(configuration or {}),
            },
        )

    async def run(self, slots=2):
        await self.start()
        await self.add_task_manager("tm1", slots)
        await self.run_everything()

    async def triggered(self, number=1):
        """The trigger of the checkpoint with that number, counted from 1."""
        await self.passing(lambda: len(self.peers.requests("trigger_checkpoints")) >= number)
        return self.peers.requests("trigger_checkpoints")[number - 1]

    async def passing(self, condition):
        """Time passes until `condition`."""
        async with asyncio.timeout(10):
            while not condition():
                self.clock.advance(5)
                if self.job_master.scheduler.next_deadline_ms is not None:
                    self.job_master._deadline_passed()
                await asyncio.sleep(0.001)
        await self.settle()

    async def acknowledge(self, checkpoint_id, attempt, data=b"state"):
        state = pb.TaskStateSnapshot()
        name = attempt.split("_")[1]
        handle = state.operators[f"{name}-op"].operator.add()
        handle.file.data = data
        request = pb.AcknowledgeCheckpointRequest(
            job_id="job", execution_attempt_id=attempt, checkpoint_id=checkpoint_id, state=state
        )
        self.call("acknowledge_checkpoint", request)
        await self.settle()

    async def acknowledge_all(self, checkpoint_id, attempts=None):
        for attempt in attempts or self.current:
            await self.acknowledge(checkpoint_id, attempt)

    async def complete(self, checkpoint_id, attempts=None):
        await self.acknowledge_all(checkpoint_id, attempts)
        await self.until(lambda: self.statistics().latest_completed.checkpoint_id >= checkpoint_id)

    @property
    def current(self):
        return [str(v.current.attempt_id) for v in self.job_master.scheduler.graph.vertices]

    def statistics(self):
        return self.call("request_checkpoint_statistics", pb.CheckpointStatisticsRequest(job_id="job"))

    def confirmed(self):
        return [r.checkpoint_id for r in self.peers.requests("confirm_checkpoints")]

    def aborted(self):
        return [r.checkpoint_id for r in self.peers.requests("abort_checkpoints")]


@pytest.fixture
def process(tmp_path):
    return lambda graph=None, configuration=None: CheckpointedProcess(
        graph or source_and_sink(1), tmp_path, configuration
    )


@in_loop
async def test_a_periodic_checkpoint_is_triggered_acknowledged_written_and_confirmed(process):
    job = process()
    await job.run()
    trigger = await job.triggered()
    source, sink = job.current
    assert trigger.checkpoint_id == 1
    assert list(trigger.execution_attempt_ids) == [source]
    assert trigger.options.alignment == pb.ALIGNED
    assert trigger.options.location.exclusive_directory == str(job.checkpoint_directory / "job" / "chk-1")
    await job.acknowledge(1, source)
    assert job.confirmed() == []
    await job.acknowledge(1, sink)
    await job.until(lambda: job.confirmed() == [1])
    (confirmation,) = job.peers.requests("confirm_checkpoints")
    assert list(confirmation.execution_attempt_ids) == [source, sink]
    path = job.checkpoint_directory / "job" / "chk-1" / "_metadata"
    metadata = decode_metadata(path.read_bytes(), str(path))
    assert [operator.operator_id for operator in metadata.operators] == ["source-op", "sink-op"]
    assert metadata.operators[0].subtasks[0].operator[0].file.data == b"state"
    assert job.statistics().num_completed == 1
    await job.job_master.close()
