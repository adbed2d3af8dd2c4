"""Classes of the operator give failures labels, and a class that misbehaves costs its own labels only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flinkpy.common.errors import FlinkError, FunctionError
from flinkpy.jobmaster.failover.execution_failure_handler import ExceptionHistory
from flinkpy.jobmaster.failure_labels import (
    MAX_LABEL_CHARS,
    FailureContext,
    FailureEnricher,
    FailureLabels,
    load_enrichers,
)

WHERE = __name__


class OfType(FailureEnricher):
    output_keys = frozenset({"type"})

    def process_failure(self, cause: FlinkError, context: FailureContext) -> Mapping[str, str]:
        return {"type": type(cause).__name__}


class OfJob(FailureEnricher):
    output_keys = frozenset({"job", "task"})

    def process_failure(self, cause: FlinkError, context: FailureContext) -> Mapping[str, str]:
        return {"job": f"{context.job_name} {context.job_id}", "task": context.task_name or "none"}


class SameLabel(OfType):
    pass


class Undeclared(FailureEnricher):
    output_keys = frozenset({"a"})

    def process_failure(self, cause: FlinkError, context: FailureContext) -> Mapping[str, str]:
        return {"a": "1", "b": "2"}


class Raising(FailureEnricher):
    output_keys = frozenset({"c"})

    def process_failure(self, cause: FlinkError, context: FailureContext) -> Mapping[str, str]:
        raise RuntimeError("no answer")


class Long(FailureEnricher):
    output_keys = frozenset({"long"})

    def process_failure(self, cause: FlinkError, context: FailureContext) -> Mapping[str, str]:
        return {"long": "x" * 10_000}


class NoEnricher:
    pass


class Life:
    """Labels of the failures of a job, whose blocking calls run when the test says so."""

    def __init__(self, *names: str) -> None:
        self.history = ExceptionHistory()
        self.calls: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []
        self.timers: list[Callable[[], None]] = []
        self.num_labeled = 0
        self.labels = FailureLabels(
            self.history,
            load_enrichers([f"{WHERE}.{name}" for name in names]),
            "0a",
            "my job",
            lambda call, done, name: self.calls.append((call, done)),
            lambda delay_ms, action: self.timers.append(action),
            self._on_labeled,
        )

    def _on_labeled(self) -> None:
        self.num_labeled += 1

    def fail(self, message: str = "boom", *, is_concurrent: bool = False) -> None:
        self.history.record(FunctionError(message), None, 5, is_concurrent=is_concurrent)
        self.labels.observe()

    def work(self) -> None:
        call, done = self.calls.pop(0)
        done(call(), None)

    def found(self) -> list[dict[str, str] | None]:
        return [entry.labels for entry in self.history.entries]


def test_a_failure_gets_the_labels_of_all_enrichers_on_an_io_thread() -> None:
    life = Life("OfType", "OfJob")
    life.fail()
    assert life.found() == [None] and life.num_labeled == 0
    life.work()
    assert life.found() == [{"type": "FunctionError", "job": "my job 0a", "task": "none"}]
    assert life.num_labeled == 1 and life.calls == []


def test_failures_during_a_call_are_labeled_after_it_with_those_that_came_with_them() -> None:
    life = Life("OfType")
    life.fail("first")
    life.fail("second")
    life.fail("third", is_concurrent=True)
    assert len(life.calls) == 1
    life.work()
    assert life.found() == [None, {"type": "FunctionError"}]
    life.work()
    newest = life.history.entries[0]
    assert [newest.labels, newest.concurrent[0].labels] == [{"type": "FunctionError"}] * 2


def test_without_enrichers_no_failure_waits() -> None:
    life = Life()
    life.fail()
    assert life.found() == [{}] and life.calls == []
    ended: list[bool] = []
    life.labels.when_labeled(lambda: ended.append(True))
    assert ended == [True]


def test_the_end_of_a_job_waits_for_labels_but_not_for_ever() -> None:
    life = Life("OfType")
    ended: list[str] = []
    life.fail()
    life.labels.when_labeled(lambda: ended.append("labeled"))
    assert ended == []
    life.work()
    life.timers.pop()()
    assert ended == ["labeled"]
    life.fail()
    life.labels.when_labeled(lambda: ended.append("given up"))
    life.timers.pop()()
    life.work()
    assert ended == ["labeled", "given up"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Unknown", "has no attribute 'Unknown'"),
        ("NoEnricher", "is not a FailureEnricher"),
        ("SameLabel", "has the label 'type' already"),
        ("Raising", "no answer"),
        ("Undeclared", "the labels 'b' are not among its output_keys"),
    ],
)
def test_an_enricher_that_cannot_be_used_is_named_in_the_log_and_costs_only_its_own_labels(
    name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        life = Life("OfType", name)
        life.fail()
        life.work()
    assert life.found() == [{"type": "FunctionError"}]
    assert name in caplog.text and reason in caplog.text


def test_long_labels_are_cut() -> None:
    life = Life("Long")
    life.fail()
    life.work()
    [labels] = life.found()
    assert labels is not None and len(labels["long"]) <= MAX_LABEL_CHARS
