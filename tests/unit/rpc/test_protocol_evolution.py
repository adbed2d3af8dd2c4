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
            if not _may_replace(current.get(call), types, before["messages"], after["messages"]):
                found.append(f"{name}.{call} was `{types}` and is `{current.get(call)}`")
    return found


def _may_replace(now: str | None, then: str, messages_then: dict[str, Any], messages_now: dict[str, Any]) -> bool:
    """True if the types of a call are the same, or others that have all fields of the earlier ones.

    The wire has the numbers of fields, not the names of messages, so a call may get a larger message of its own.
    """
    if now is None:
        return False
    for current, earlier in zip(now.split(" -> "), then.split(" -> "), strict=True):
        if current == earlier:
            continue
        fields_now, fields_then = (
            messages.get(name.lstrip("."), {}).get("fields", {})
            for messages, name in ((messages_now, current), (messages_then, earlier))
        )
        if not fields_then or not fields_then.items() <= fields_now.items():
            return False
    return True


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

    calls = "flinkpy.Dispatcher"
    larger, other = ".flinkpy.JobDetailsRequest -> .flinkpy.JobDetails", ".flinkpy.BlobChunk -> .flinkpy.JobDetails"
    before["services"][calls]["RequestJob"] = ".flinkpy.JobIdMessage -> .flinkpy.JobDetails"
    assert changed(lambda it: it["services"][calls].update({"RequestJob": larger})) == []
    assert "and is `.flinkpy.BlobChunk" in changed(lambda it: it["services"][calls].update({"RequestJob": other}))[0]

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
