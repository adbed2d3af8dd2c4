"""Messages on the wire and in files stay compatible: messages only get new fields, and services only new calls.

Each `tests/recorded/protocol_*.json` describes the proto files of one release (`tools/record_protocol.py`).
"""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from flinkpy._proto import job_pb2
from flinkpy.common.errors import VersionMismatchError
from flinkpy.common.states import ExecutionState, JobState

ROOT = Path(__file__).resolve().parents[3]
RECORDED = sorted((ROOT / "tests" / "recorded").glob("protocol_*.json"))


def now() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("record_protocol", ROOT / "tools" / "record_protocol.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    described: dict[str, Any] = json.loads(json.dumps(module.describe()))
    return described


def broken_promises(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns the incompatible changes from `before` to `after` that a peer or file would notice."""
    found = []
    for name, message in before["messages"].items():
        current = after["messages"].get(name)
        if current is None:
            found.append(f"message {name} is gone")
            continue
        reserved = {number for numbers in current["reserved"] for number in numbers}
        for number, field in message["fields"].items():
            present = current["fields"].get(number)
            if present is None and int(number) not in reserved:
                found.append(f"{name}: `{field} = {number}` is gone and its number is not reserved")
            elif present is not None and present != field:
                found.append(f"{name}: field {number} was `{field}` and is `{present}`")
        for numbers in message["reserved"]:
            found += [
                f"{name}: reserved number {number} is used" for number in numbers if str(number) in current["fields"]
            ]
    for name, values in before["enums"].items():
        current = after["enums"].get(name, {})
        found += [f"{name}.{value} was {number}" for value, number in values.items() if current.get(value) != number]
    for name, calls in before["services"].items():
        current = after["services"].get(name, {})
        for call, types in calls.items():
            if current.get(call) != types:
                found.append(f"{name}.{call} was `{types}` and is `{current.get(call)}`")
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_messages_and_calls_of_earlier_releases_are_unchanged(path: Path) -> None:
    assert broken_promises(json.loads(path.read_text()), now()) == []


def test_a_release_has_been_recorded() -> None:
    assert RECORDED != []


def test_every_kind_of_incompatible_change_is_detected() -> None:
    before = now()

    def changed(change: Any) -> list[str]:
        after = copy.deepcopy(before)
        change(after)
        return broken_promises(before, after)

    fields = "flinkpy.JobOverview"
    assert changed(lambda it: it["messages"].pop(fields)) == ["message flinkpy.JobOverview is gone"]
    assert "is gone and its number" in changed(lambda it: it["messages"][fields]["fields"].pop("2"))[0]
    assert "was `string name`" in changed(lambda it: it["messages"][fields]["fields"].update({"2": "bytes name"}))[0]
    assert changed(lambda it: it["enums"]["flinkpy.JobStatus"].update({"JOB_STATUS_NEW": 99})) == []
    assert changed(lambda it: it["messages"][fields]["fields"].update({"77": "string added"})) == []
    assert "SubmitJob" in changed(lambda it: it["services"]["flinkpy.Dispatcher"].pop("SubmitJob"))[0]

    def reserve(it: dict[str, Any]) -> None:
        it["messages"][fields]["fields"].pop("2")
        it["messages"][fields]["reserved"].append([2])

    assert changed(reserve) == []


def test_fields_and_values_of_a_newer_release_pass_through() -> None:
    """A message may pass through a process that is older than the sender and the receiver."""
    unknown = b"\xfa\x3f\x05later"  # field 1023, a string
    raw = job_pb2.JobGraph(job_id="a" * 32).SerializeToString() + unknown
    assert unknown in job_pb2.JobGraph.FromString(raw).SerializeToString()
    late = job_pb2.JobResult.FromString(job_pb2.JobResult(status=99).SerializeToString())  # type: ignore[arg-type]
    assert late.status == 99


@pytest.mark.parametrize("states", [JobState, ExecutionState])
def test_an_enum_value_of_a_newer_release_is_named_in_the_error(states: Any) -> None:
    with pytest.raises(VersionMismatchError, match="99: the sender has a newer release"):
        states(99)
