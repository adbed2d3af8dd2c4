"""Labels of failures: classes of the operator of the cluster look at each failure of a job and describe it by labels.

`jobmanager.failure-enrichers` names the classes. Labels are in the exception history (`failureLabels`) and in the event
of the failure (`failureLabel.<key>`). A class that cannot be loaded, raises an error, or returns an undeclared label
is named in the log; the job goes on without its labels.

Source: org.apache.flink.core.failure.FailureEnricher, org.apache.flink.runtime.failure.FailureEnricherUtils (FLIP-304).
Differs: the names are those of Python classes in an installed package, because there are no plugins.
"""

from __future__ import annotations

import importlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import bounded_text
from flinkpy.common.errors import FlinkError

if TYPE_CHECKING:
    from flinkpy.jobmaster.failover.execution_failure_handler import ExceptionHistory, ExceptionHistoryEntry

logger = logging.getLogger(__name__)

#: The longest key or value of a label, and the most labels of a failure. Each answer about a job contains them.
MAX_LABEL_CHARS = 256
MAX_LABELS = 32
#: The longest time that the end of a job waits for labels of its last failure.
MAX_WAIT_MS = 10_000


@dataclass(frozen=True, slots=True)
class FailureContext:
    """The job and the task that failed. `task_name` is empty if the whole job failed."""

    job_id: str
    job_name: str
    task_name: str


class FailureEnricher(ABC):
    """Describes failures by labels. Thread: an I/O thread of the JobMaster, one call at a time."""

    @property
    @abstractmethod
    def output_keys(self) -> Set[str]:
        """The keys of the labels that `process_failure` may return. No other enricher may have them."""

    @abstractmethod
    def process_failure(self, cause: FlinkError, context: FailureContext) -> Mapping[str, str]:
        """Returns the labels of a failure. May block, e.g. to tell another system of the failure."""


def load_enrichers(names: Sequence[str]) -> list[FailureEnricher]:
    """Makes an enricher of each class. Logs those that cannot be used, and leaves them out."""
    enrichers: list[FailureEnricher] = []
    taken: dict[str, str] = {}
    for name in names:
        module, _, class_name = name.strip().replace(":", ".").rpartition(".")
        try:
            made = getattr(importlib.import_module(module), class_name)()
            if not isinstance(made, FailureEnricher):
                raise TypeError(f"{class_name} is not a FailureEnricher")
            keys = set(made.output_keys)
            twice = sorted(key for key in keys if key in taken)
            if twice:
                raise ValueError(f"{taken[twice[0]]} has the label {twice[0]!r} already")
        except Exception:
            logger.exception("jobmanager.failure-enrichers: %s cannot be used, and failures lack its labels", name)
            continue
        taken.update(dict.fromkeys(keys, name))
        enrichers.append(made)
    return enrichers


def labels_of(enrichers: Sequence[FailureEnricher], cause: FlinkError, context: FailureContext) -> dict[str, str]:
    """Returns the labels of one failure. Blocks."""
    labels: dict[str, str] = {}
    for enricher in enrichers:
        try:
            found = dict(enricher.process_failure(cause, context))
            unknown = sorted(set(found) - set(enricher.output_keys))
            if unknown:
                raise ValueError(f"the labels {', '.join(map(repr, unknown))} are not among its output_keys")
        except Exception:
            logger.exception(
                "%s failed, and a failure of job %s lacks its labels", type(enricher).__name__, context.job_id
            )
            continue
        for key, value in found.items():
            if len(labels) < MAX_LABELS:
                labels[bounded_text(key, MAX_LABEL_CHARS)] = bounded_text(str(value), MAX_LABEL_CHARS)
    return labels


class FailureLabels:
    """Gets labels for the failures in the history of a job. Thread: JobMaster main thread.

    Args:
        history: the failures of the job.
        enrichers: if there are none, no failure waits for labels.
        run_blocking: runs a call on an I/O thread, then passes its result and error to a function on the main thread.
        schedule: calls a function after some ms on the main thread.
        on_labeled: called when failures have got their labels.
    """

    def __init__(
        self,
        history: ExceptionHistory,
        enrichers: Sequence[FailureEnricher],
        job_id: str,
        job_name: str,
        run_blocking: Callable[[Callable[[], Any], Callable[[Any, BaseException | None], None], str], None],
        schedule: Callable[[float, Callable[[], None]], object],
        on_labeled: Callable[[], None],
    ) -> None:
        self._history = history
        self._enrichers = list(enrichers)
        self._job_id = job_id
        self._job_name = job_name
        self._run_blocking = run_blocking
        self._schedule = schedule
        self._on_labeled = on_labeled
        self._is_running = False
        self._waiting: list[Callable[[], None]] = []
        history.waits_for_labels = bool(self._enrichers)

    def observe(self) -> None:
        """Gets the labels of failures that have none yet. Enrichers see one failure after the other."""
        entries = self._history.unlabeled()
        if not entries or self._is_running:
            return
        self._is_running = True
        # Failures are immutable; their entries belong to the main thread.
        causes = [(entry.error, FailureContext(self._job_id, self._job_name, entry.task_name)) for entry in entries]

        def label() -> list[dict[str, str]]:
            return [labels_of(self._enrichers, cause, context) for cause, context in causes]

        def done(found: list[dict[str, str]] | None, error: BaseException | None) -> None:
            self._is_running = False
            if error is not None:
                logger.error("failures of job %s have no labels", self._job_id, exc_info=error)
            self._label(entries, found or [{} for _ in entries])

        self._run_blocking(label, done, "label failures")

    def _label(self, entries: Sequence[ExceptionHistoryEntry], found: Sequence[dict[str, str]]) -> None:
        for entry, labels in zip(entries, found, strict=True):
            entry.labels = labels
        if self._history.unlabeled():
            self.observe()
        else:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()
        self._on_labeled()

    def when_labeled(self, call: Callable[[], None]) -> None:
        """Calls `call` at once if no failure waits for labels, else when all have them, or after MAX_WAIT_MS."""
        self.observe()
        if not self._history.unlabeled():
            call()
            return

        def give_up() -> None:
            if call in self._waiting:
                self._waiting.remove(call)
                logger.error("job %s ends without the labels of a failure: the enrichers take too long", self._job_id)
                call()

        self._waiting.append(call)
        self._schedule(MAX_WAIT_MS, give_up)
