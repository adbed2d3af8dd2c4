"""SparkRegionTask: the task that runs a region of a job in Spark.

It reads all of its inputs, runs the region in Spark, and emits the results. The rest of the runtime deploys, cancels,
restarts and measures it like any other task.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.graph.spark_region import SparkRegionSpec, output_tag
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, Watermark
from flinkpy.spark.progress import register_gauges
from flinkpy.spark.region_process import TEMPLATE, RegionJob, RegionProcess, register_waits
from flinkpy.spark.region_run import AccumulatorReport, Finished
from flinkpy.spark.s3_settings import with_s3
from flinkpy.spark.sessions import SESSIONS
from flinkpy.spark.settings import SparkSettings, settings_of
from flinkpy.spark.staging import Staging, staging_of_attempt
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.user_files import UserFiles
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.operators.factory import register_operator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.tasks.environment import ShippedFiles, TaskEnvironment
from flinkpy.streaming.tasks.input_stream_task import InputStreamTask
from flinkpy.streaming.tasks.stream_task import StreamTask

_LOG = logging.getLogger(__name__)

_MAX_WATERMARK = (1 << 63) - 1


class SparkRegionOperator(StreamOperator):
    """The only operator of the task. Thread: task thread, except for `cancel`."""

    def __init__(
        self, spec: SparkRegionSpec, context: OperatorContext, output: Output, side_outputs: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side_outputs)
        self.num_written = 0
        environment = context.environment
        self._region = spec.region
        self._settings = with_s3(settings_of(environment.configuration), spec.region, environment.configuration)
        self._staging = _staging(environment, self._settings)
        self._inputs = [
            self._staging.input(number, one.name, one.type_info) for number, one in enumerate(spec.region.inputs)
        ]
        self._outputs = [side_outputs[output_tag(number)] for number in range(spec.region.num_outputs)]
        shipped = getattr(environment, "shipped_files", ShippedFiles())
        job = RegionJob(
            spec_pickle=environment.vertex.chain[0].factory_pickle,
            settings=self._settings,
            job=JobFacts(
                job_id=environment.job_id,
                job_name=environment.job_name,
                configuration=environment.configuration.to_dict(),
                cached_files=dict(environment.cached_files),
                attempt_number=environment.attempt_number,
            ),
            user_files=UserFiles(shipped, self._settings),
            task_name=environment.task_name,
            tag=f"flinkpy-{environment.execution_attempt_id}",
            staging=self._staging,
            import_path=shipped.import_path or tuple(sys.path),
            working_directory=os.getcwd(),
        )
        self._run = RegionProcess(job, SESSIONS, TEMPLATE, context.mailbox.wake)

    def open(self) -> None:
        group = self.context.environment.metric_group
        register_gauges(group, self._run.tracker)
        register_waits(group, self._run.status)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._inputs[input_index].add(batch)

    def process_element(self, element: Element) -> None:
        """Ignores the element, because Spark starts at the end of the inputs."""
        return

    def start(self) -> None:
        """Starts the region in Spark. Called when all inputs have ended."""
        _LOG.info(
            "%s runs in Spark at %s: %s",
            self.context.environment.task_name,
            self._settings.redacted_master,
            self.context.environment.vertex.description,
        )
        self._run.start(self._inputs)

    def emit_next(self) -> ActionStatus:
        """Emits the next result. Raises the error that the region failed with."""
        item = self._run.poll()
        if item is None:
            return ActionStatus.NOTHING_AVAILABLE
        if isinstance(item, Finished):
            if item.error is not None:
                raise item.error
            self.num_written = item.num_written
            for output in self._outputs:
                output.emit_element(Watermark(_MAX_WATERMARK))
            return ActionStatus.END
        if isinstance(item, AccumulatorReport):
            # Every report comes from a successful attempt, so they can be added up.
            self.context.environment.accumulators.restore([item.values])
            return ActionStatus.MORE
        number, batch = item
        self._outputs[number].emit(batch)
        return ActionStatus.MORE

    def cancel(self) -> None:
        """Thread: any."""
        self._run.cancel()

    def close(self) -> None:
        self._run.close()


class SparkRegionTask(InputStreamTask):
    """Hosts a SparkRegionOperator. Thread: as StreamTask."""

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment)
        self._operator: SparkRegionOperator | None = None
        self._has_started = False

    def initialize(self) -> None:
        head: Any = self.chain.head
        if not isinstance(head, SparkRegionOperator):
            raise InternalError(f"{self.environment.task_name} does not host a Spark region")
        self._operator = head
        if self.environment.vertex.inputs:
            super().initialize()

    def start_inputs(self) -> None:
        if self._input is not None:
            super().start_inputs()

    def process_input(self) -> ActionStatus:
        assert self._operator is not None
        if not self._has_started:
            if self._input is not None:
                status = super().process_input()
                if status is not ActionStatus.END:
                    return status
            self._has_started = True
            self._operator.start()
        if not self.chain.is_writable:
            return ActionStatus.BLOCKED
        return self._operator.emit_next()

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        StreamTask.on_trigger(self, barrier)

    def cancel(self) -> None:
        super().cancel()
        operator = self._operator
        if operator is not None:
            operator.cancel()


register_operator(SparkRegionSpec, SparkRegionOperator)


def _staging(environment: TaskEnvironment, settings: SparkSettings) -> Staging:
    """Returns the staging of this attempt."""
    # One name for each attempt, so that no directory of the job stays behind.
    attempt = f"{environment.job_id}-{environment.execution_attempt_id}"
    return staging_of_attempt(settings, environment.state.directory / "spark-staging", attempt)
