"""The JobMaster merges the accumulators of subtasks and tolerates errors of user classes."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from flinkpy.common.accumulators import Accumulator, AccumulatorFailure, IntCounter, ListAccumulator
from flinkpy.jobmaster.accumulators import MAX_TEXT_CHARS, merge_accumulators


def reported(**values: Any) -> dict[str, bytes]:
    return {name: cloudpickle.dumps(value) for name, value in values.items()}


def values_of(reports: list[dict[str, bytes]]) -> dict[str, Any]:
    return {result.name: pickle.loads(result.value_pickle) for result in merge_accumulators(reports)}


class Refusing(Accumulator[int, int]):
    def add(self, value: int) -> None:
        return

    def get_local_value(self) -> int:
        raise RuntimeError("no value")

    def reset_local(self) -> None:
        return

    def merge(self, other: Any) -> None:
        raise RuntimeError("no merging")


def test_reports_are_merged_by_name() -> None:
    reports = [reported(a=IntCounter(2), b=IntCounter(5)), reported(a=IntCounter(40)), {}]
    assert values_of(reports) == {"a": 42, "b": 5}


def test_a_result_has_its_type_and_a_bounded_text() -> None:
    words = ListAccumulator()
    words.add("x" * 10_000)
    (result,) = merge_accumulators([reported(words=words)])
    assert (result.name, result.type) == ("words", "ListAccumulator")
    assert result.value.startswith("['xxx") and len(result.value) == MAX_TEXT_CHARS


def test_an_accumulator_that_cannot_be_merged_does_not_affect_others() -> None:
    reports = [reported(bad=Refusing(), good=IntCounter(1)), reported(bad=Refusing(), good=IntCounter(1))]
    values = values_of(reports)
    assert values["good"] == 2
    assert isinstance(values["bad"], AccumulatorFailure)
    assert "no merging" in values["bad"].reason


def test_an_accumulator_without_a_result_is_a_failure() -> None:
    assert "RuntimeError: no value" in values_of([reported(bad=Refusing())])["bad"].reason


def test_an_accumulator_with_two_types_is_a_failure() -> None:
    values = values_of([reported(n=IntCounter(1)), reported(n=ListAccumulator())])
    assert values["n"].reason == "cannot be merged: its type differs between tasks (IntCounter and ListAccumulator)"


def test_an_accumulator_that_cannot_be_loaded_is_a_failure() -> None:
    assert "cannot be merged" in values_of([{"n": b"no pickle"}])["n"].reason


def test_a_failure_of_one_task_fails_the_merged_accumulator() -> None:
    failure = AccumulatorFailure("n", "cannot be pickled")
    reports = [reported(n=IntCounter(1)), reported(n=failure), reported(n=IntCounter(1))]
    assert values_of(reports)["n"].reason == "cannot be pickled"


def test_results_that_are_too_large_are_left_out_so_that_the_job_can_end() -> None:
    huge = ListAccumulator()
    huge.add(b"\0" * (9 * 1024 * 1024))
    values = values_of([reported(huge=huge, small=IntCounter(1))])
    assert "all results of a job together may have" in values["huge"].reason
    assert values["small"] == 1
