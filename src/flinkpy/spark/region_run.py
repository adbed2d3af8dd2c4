"""RegionRun: runs one attempt of a region in its own thread, because calls of Spark block.

```
  task thread:   inputs -> StagedInput ... start() ........ poll() -> batches of outputs ... (end)
  run thread:                      session, translate, outputs -> queue, sinks: write, committables -> queue
  watch thread:                    progress, and interrupts Spark's jobs when the task is canceled
```

A region does not commit: if it failed after a commit, it would run and commit again. When all sinks are written, it
passes its committables to the tasks that commit them.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.graph.spark_region import SparkRegion
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import FAILED_ATTEMPTS
from flinkpy.spark.errors import as_flink_error, cause_of, failed_attempt_in
from flinkpy.spark.frame_store import DriverStore, FrameStore, frame_store
from flinkpy.spark.progress import ProgressTracker, ProgressWatch
from flinkpy.spark.session import RunningSpark, Sessions
from flinkpy.spark.settings import SparkSettings
from flinkpy.spark.staging import StagedInput, Staging
from flinkpy.streaming.operators.batch_sink_operators import committable_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flinkpy.spark.translation.program import JobFacts
    from flinkpy.spark.user_files import UserFiles

_LOG = logging.getLogger(__name__)

#: The maximum number of batches that wait for the task.
_QUEUED_BATCHES = 16
#: Running jobs are interrupted this often until the thread ends, because a cancellation may fall between two jobs.
_INTERRUPT_S = 0.3
_CLOSE_S = 20.0


class CancelledError(Exception):
    """Raised in the run thread after the task was canceled."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an attempt.

    Attributes:
        error: the error of the attempt; None if it succeeded.
        num_written: the number of records that sinks have written.
    """

    error: BaseException | None
    num_written: int


@dataclass(frozen=True, slots=True)
class AccumulatorReport:
    """The pickled accumulators of one subtask, by name."""

    values: Any


#: A message from the run to the task: (number of an output, batch), accumulators, or the end.
Item = tuple[int, Batch] | AccumulatorReport | Finished


class ItemQueue:
    """The items of a run on their way to the task. Thread: any; one puts, and one polls.

    Args:
        is_cancelled: set when nobody takes items any more.
        on_available: called from the thread that puts when `poll` has something to return.
    """

    def __init__(self, is_cancelled: threading.Event, on_available: Callable[[], None]) -> None:
        self._is_cancelled = is_cancelled
        self._on_available = on_available
        self._items: queue.Queue[Item] = queue.Queue(_QUEUED_BATCHES)

    @property
    def is_empty(self) -> bool:
        return self._items.empty()

    def poll(self) -> Item | None:
        try:
            return self._items.get_nowait()
        except queue.Empty:
            return None

    def put(self, item: Item) -> None:
        """Waits for room. Raises: CancelledError."""
        while True:
            if self._is_cancelled.is_set():
                raise CancelledError
            try:
                self._items.put(item, timeout=_INTERRUPT_S)
            except queue.Full:
                continue
            self._on_available()
            return


class RegionRun:
    """One attempt of a region. Thread: `poll` and `close` run on the task thread, `cancel` on any.

    Args:
        on_available: called from any thread when `poll` has something to return.
    """

    def __init__(
        self,
        region: SparkRegion,
        settings: SparkSettings,
        sessions: Sessions,
        job: JobFacts,
        user_files: UserFiles,
        task_name: str,
        tag: str,
        staging: Staging,
        on_available: Callable[[], None],
    ) -> None:
        self.tracker = ProgressTracker(task_name)
        self._region = region
        self._settings = settings
        self._sessions = sessions
        self._job = job
        self._user_files = user_files
        self._task_name = task_name
        self._tag = tag
        self._staging = staging
        self._is_cancelled = threading.Event()
        self._items = ItemQueue(self._is_cancelled, on_available)
        self._is_over = threading.Event()
        self._wake_watch = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_warned = False
        #: The last log lines of Spark's driver, how it ended, and the lost executors, if the run has failed.
        self._last_words = self._ending = self._lost_executors = ""

    def start(self, inputs: list[StagedInput]) -> None:
        self._thread = threading.Thread(target=self._run, args=(inputs,), name=f"spark {self._task_name}", daemon=True)
        self._thread.start()

    def poll(self) -> Item | None:
        return self._items.poll()

    @property
    def has_ended(self) -> bool:
        """True if there will be no more items, because the run has ended or was canceled."""
        return self._thread is not None and not self._thread.is_alive() and self._items.is_empty

    def cancel(self) -> None:
        """Stops the jobs of this run in Spark. Does not wait."""
        self._is_cancelled.set()
        self._wake_watch.set()

    def close(self) -> None:
        """Waits until Spark has stopped. Idempotent."""
        self.cancel()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)
            if thread.is_alive():
                _LOG.warning("%s: Spark has not stopped within %d s", self._task_name, _CLOSE_S)
        self._staging.close()

    # -- run thread ----------------------------------------------------------------------------------------------

    def _run(self, inputs: list[StagedInput]) -> None:
        error: BaseException | None = None
        num_written = 0
        try:
            with self._sessions.use(self._settings, self._is_cancelled.is_set) as spark:
                num_written = self._run_in(spark, inputs)
        except BaseException as raised:  # noqa: BLE001 - raised by the task
            error = raised
        finally:
            self._is_over.set()
            self._wake_watch.set()
        if error is not None and not self._is_cancelled.is_set():
            if self._settings.is_connect and (attempt := failed_attempt_in(str(error))) is not None:
                self.tracker.add(tasks_failed=attempt.number + 1)
            now = self.tracker.now
            progress = f"{now}; {now.lineage}" if now.stages else ""
            master = self._settings.redacted_master
            known = self._last_words, self._ending, self._lost_executors
            error = as_flink_error(error, self._task_name, master, progress, *known)
        try:
            self._items.put(Finished(error, num_written))
        except CancelledError:
            _LOG.debug("%s: the task was canceled before the end of its Spark jobs", self._task_name)

    def _run_in(self, spark: RunningSpark, inputs: list[StagedInput]) -> int:
        from flinkpy.spark.translation.places import describe_places
        from flinkpy.spark.translation.sinks import check_repeated_stage
        from flinkpy.spark.translation.translator import translate

        session = spark.new_session()
        spark.begin(session, self._tag, self._task_name)
        watch = spark.watch(session, self._tag, self.tracker)
        thread = threading.Thread(target=self._watch, args=(spark, session, watch), name="spark-watch", daemon=True)
        thread.start()
        store: FrameStore = DriverStore()
        try:
            job = self._user_files.send(spark, session, self._job)
            self._staging.open(session)
            frames = [one.frame(session) for one in inputs]
            store = frame_store(session, self._settings.is_local, self._staging.shared)
            translated = translate(self._region, session, frames, job, store)
            self._describe(spark.web_url, describe_places(translated.places))
            self._check()
            for number, output in enumerate(translated.outputs):
                for batch in self._staging.read_output(number, output, store, self._take_accumulators):
                    self._count_rows(batch.num_rows)
                    self._items.put((number, batch))
                self._check()
            num_written = 0
            for sink in translated.sinks:
                num_rows = sink.write(self._take_accumulators)
                self._count_rows(num_rows)
                num_written += num_rows
                self._check()
            # Consumers of the region only get its results when it has ended.
            store.check()
            if translated.sinks and watch.has_repeated_last_stage():
                check_repeated_stage(node for sink in translated.sinks for node in sink.sinks)
            for sink in translated.sinks:
                sink.remove_leftovers(may_have_retried=watch.may_have_retried())
                self._check()
            for sink in translated.sinks:
                for node_id, committables in sink.committables():
                    number = self._region.output_of_committables(node_id)
                    for batch in committable_batches(committables):
                        self._items.put((number, batch))
            return num_written
        except BaseException:
            if not self._is_cancelled.is_set():
                self._last_words, self._ending = spark.last_words, spark.ending
                self._lost_executors = "" if self._ending else spark.lost_executors
            raise
        finally:
            self._ask(store.close, "does not remove the records that it kept")
            self._is_over.set()
            self._wake_watch.set()
            thread.join(_CLOSE_S)
            watch.close()

    def _describe(self, web_url: str, operators: str) -> None:
        self.tracker.describe(web_url, operators)
        if web_url:
            _LOG.info("%s: Spark's web page: %s", self._task_name, web_url)
        for line in operators.splitlines():
            _LOG.info("%s: %s", self._task_name, line)

    def _take_accumulators(self, values: Any) -> None:
        accumulators = dict(values)
        failed = accumulators.pop(FAILED_ATTEMPTS, None)
        if failed is not None and self._settings.is_connect:
            self.tracker.add(tasks_failed=int(failed))
        if accumulators:
            self._items.put(AccumulatorReport(accumulators))

    def _count_rows(self, num_rows: int) -> None:
        """Counts rows that a Spark Connect server does not report. Other drivers report what their tasks write."""
        if self._settings.is_connect:
            self.tracker.add(output_rows=num_rows)

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise CancelledError

    # -- watch thread --------------------------------------------------------------------------------------------

    def _watch(self, spark: RunningSpark, session: SparkSession, watch: ProgressWatch) -> None:
        while not self._is_over.is_set():
            if self._is_cancelled.is_set():
                self._ask(lambda: spark.interrupt(session, self._tag), "does not stop its jobs")
                self._is_over.wait(_INTERRUPT_S)
            else:
                self._ask(watch.look, "does not report its progress")
                self._wake_watch.wait(self._settings.progress_interval_ms / 1000)
        if not self._is_cancelled.is_set():
            self._ask(watch.look, "does not report its progress")
        self._log_lineage()

    def _ask(self, question: Callable[[], None], what_fails: str) -> None:
        try:
            question()
        except Exception as error:  # noqa: BLE001 - the run itself will fail with the cause
            if not self._has_warned:
                self._has_warned = True
                _LOG.warning("%s: Spark %s: %s", self._task_name, what_fails, cause_of(str(error)))

    def _log_lineage(self) -> None:
        now = self.tracker.now
        if now.stages:
            rows = f", {now.output_rows} rows" if now.output_rows else ""
            _LOG.info("%s: %s%s; %s", self._task_name, now, rows, now.lineage)
