"""The reference interpreter of windows, which the engine is checked against, gives the results of PyFlink."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from window_reference import Trigger, Window, WindowInterpreter, session, sliding, tumbling

RECORDED = json.loads((Path(__file__).parents[2] / "recorded" / "pyflink_answers.json").read_text())["answers"]
MAX_WATERMARK = (1 << 63) - 1
CASES = [
    pytest.param(case, answer, id=f"{number}-{case['parameters']['window']}-{case['parameters'].get('trigger', '')}")
    for number, (case, answer) in enumerate(RECORDED)
    if case["program"] == "window_process" and case["parameters"]["window"] != "global"
]


def assigner(parameters: dict[str, Any]) -> Callable[[Any, int], list[Window]]:
    size, offset = parameters["size"], parameters.get("offset", 0)
    match parameters["window"]:
        case "tumbling":
            return tumbling(size, offset)
        case "sliding":
            return sliding(size, parameters["slide"], offset)
        case "session":
            return session(lambda _: size)
        case _:
            return session(lambda value: 1 + abs(value) % 5)


def trigger(parameters: dict[str, Any]) -> Trigger:
    match parameters.get("trigger"):
        case "count" | "purging_count" as kind:
            return Trigger("count", parameters["count"], purges=kind != "count")
        case kind:
            return Trigger(purges=kind == "purging_event_time")


@pytest.mark.parametrize(("case", "answer"), CASES)
def test_the_reference_interpreter_matches_pyflink(case: dict[str, Any], answer: dict[str, Any]) -> None:
    parameters = case["parameters"]
    merges = "session" in parameters["window"]
    reference = WindowInterpreter(assigner(parameters), merges, trigger(parameters), parameters.get("lateness", 0))
    for key, value, timestamp, watermark in case["records"]:
        reference.record(key, value, timestamp)
        if watermark is not None:
            reference.advance(watermark)
    reference.advance(MAX_WATERMARK)

    told: dict[str, list[Any]] = {}
    for kind, key, payload in reference.results:
        if kind == "late":
            if parameters.get("late_output"):
                told.setdefault(f"late {key}", []).append(list(payload))
        else:
            window, values = payload
            fired = told.setdefault(f"main {key}", [])
            fired.append([list(window), sorted(values) if merges else values, len(fired) + 1])
    assert told == answer
