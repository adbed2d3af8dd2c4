"""The REST API against that of Flink 2.3.0, as recorded from its jar: operations, parameters and fields."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import flinkpy.rest.messages
from flinkpy.rest.handlers import all_operations

RECORDED = Path(__file__).resolve().parents[2] / "recorded"
#: Aliases for a proxy of YARN that could not pass other verbs on. flinkpy does not run on YARN.
LEFT_OUT = {"GET /jobs/:jobid/yarn-cancel", "GET /jobs/:jobid/yarn-stop"}
#: Fields that only a JVM, or only another component of Flink, could fill, by class.
WITHOUT_A_MEANING = {
    "SubtaskBackPressureInfo": {"other-concurrent-attempts"},
    "JobDetailsInfo": {"stream-graph", "pending-operators", "application-id"},
}
#: `stale` and those of flame graphs are flinkpy's own. The others are in Flink's answers too, but come from the names
#: of its subclasses.
ADDED = {
    "TaskManagerDetailsInfo": {"stale"},
    "JobDetailsInfo": {"stale", "age"},
    "JobVertexDetailsInfo": {"stale", "age"},
    "JobExceptionsInfoWithHistory": {"stale", "age"},
    "CheckpointingStatistics": {"stale", "age"},
    "CompletedSubtaskCheckpointStatistics": {"status"},
    "PendingSubtaskCheckpointStatistics": {"status"},
    "VertexFlameGraph": {"startTimestamp", "isSampling", "subtasks", "unreachable", "error"},
}


def rows(name: str) -> list[list[str]]:
    lines = (RECORDED / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


OPERATIONS = {f"{verb} {path}": (status, query) for verb, path, status, query in rows("flink_rest_operations.tsv")}
FIELDS = {name.rpartition(".")[2]: set(fields.split()) for name, fields in rows("flink_rest_messages.tsv")}
OURS = {one.name: one for one in all_operations() if not one.is_internal}


def structs() -> list[type[msgspec.Struct]]:
    modules = [
        importlib.import_module(f"{flinkpy.rest.messages.__name__}.{one.name}")
        for one in pkgutil.iter_modules(flinkpy.rest.messages.__path__)
    ]
    found: dict[str, Any] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__:
                found[f"{module.__name__}.{value.__name__}"] = value
    return list(found.values())


def test_there_is_no_operation_that_flink_does_not_have() -> None:
    assert sorted(set(OURS) - set(OPERATIONS)) == []


def test_every_operation_of_flink_is_there() -> None:
    assert sorted(set(OPERATIONS) - set(OURS) - LEFT_OUT) == []


@pytest.mark.parametrize("name", sorted(OURS))
def test_status_and_query_parameters_are_flinks(name: str) -> None:
    status, query = OPERATIONS[name]
    one = OURS[name]
    if status != "-":
        assert int(one.status) == int(status)
    ours = sorted(parameter.name for parameter in one.query if not parameter.is_internal)
    assert " ".join(ours) == query.replace("-", "", int(query == "-"))


@pytest.mark.parametrize("struct", structs(), ids=lambda one: one.__name__)
def test_bodies_have_flinks_fields(struct: type[msgspec.Struct]) -> None:
    theirs = FIELDS.get(struct.__name__)
    if theirs is None:
        return
    ours = {field.encode_name for field in msgspec.structs.fields(struct)} - ADDED.get(struct.__name__, set())
    assert sorted(ours - theirs) == []
    assert sorted(theirs - ours - WITHOUT_A_MEANING.get(struct.__name__, set())) == []


def test_the_comparison_finds_most_bodies() -> None:
    assert sum(one.__name__ in FIELDS for one in structs()) > 30
