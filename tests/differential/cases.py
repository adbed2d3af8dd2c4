"""Generates cases for `program.py`: out-of-order and late records, and watermarks after some of them."""

from __future__ import annotations

import random
from typing import Any

Case = dict[str, Any]

#: The number of records of one case: few enough that a difference can be followed by hand.
_MAX_RECORDS = 24


def generate(seed: int, number: int) -> list[Case]:
    """Returns `number` cases that use the programs in turn. A seed gives the same cases on every machine."""
    rng = random.Random(seed)
    makers = [
        _window_process,
        _session_process,
        _window_reduce,
        _window_aggregate,
        _triggered,
        _timers,
        _count_window,
        _window_all,
        _rolling_reduce,
        _side_outputs,
        _join,
    ]
    return [makers[index % len(makers)](rng) for index in range(number)]


def in_batch_mode(cases: list[Case]) -> list[Case]:
    """Returns the cases for batch mode: all timestamps differ, and programs that use event time have one key.

    Flink sorts the records of a key by timestamp. Records with equal timestamps come in any order (here in order of
    arrival). PyFlink 2.3.0 gives a Python function the final watermark of the previous key together with the first
    record of the next key, so windows drop that record as late. (Flink in Java does not, nor do we.)
    """
    changed = []
    for case in cases:
        of_time = {record[2]: record for record in reversed(case["records"])}
        records = [record for record in case["records"] if of_time[record[2]] is record]
        if case["program"] not in ("rolling_reduce", "side_outputs", "count_window", "window_all"):
            records = [["a", *rest] for _, *rest in records]
        changed.append({**case, "records": records})
    return changed


def _records(rng: random.Random, *, late: bool = True, ordered: bool = False) -> list[list[Any]]:
    """Returns lists `[key, value, timestamp, watermark or null]`. With `late`, some records are late."""
    keys = ["a", "b", "ключ"][: rng.randint(1, 3)]
    now = rng.randint(-20, 20)
    disorder = 0 if ordered else rng.choice([0, 3, 8, 15])
    bound = rng.randint(0, disorder) if late else disorder
    highest = watermark = None
    records: list[list[Any]] = []
    for _ in range(rng.randint(1, _MAX_RECORDS)):
        now += rng.choice([0, 1, 1, 2, 3, 9])
        timestamp = now - rng.randint(0, disorder)
        highest = timestamp if highest is None else max(highest, timestamp)
        emitted = None
        if rng.random() < 0.4:
            candidate = (now if not late else highest) - bound - 1
            if watermark is None or candidate > watermark:
                emitted = watermark = candidate
        records.append([rng.choice(keys), rng.randint(-9, 99), timestamp, emitted])
    return records


def _case(program: str, parameters: dict[str, Any], records: list[list[Any]]) -> Case:
    return {"program": program, "parameters": parameters, "records": records}


def _time_window(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        size = rng.randint(1, 12)
        return {"window": "tumbling", "size": size, "offset": rng.randint(0, size - 1)}
    slide = rng.randint(1, 6)
    return {"window": "sliding", "size": slide * rng.randint(1, 4) + rng.randint(0, slide - 1), "slide": slide}


def _lateness(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        return {}
    return {"lateness": rng.choice([0, 1, 4, 10]), "late_output": True}


def _window_process(rng: random.Random) -> Case:
    return _case("window_process", {**_time_window(rng), **_lateness(rng)}, _records(rng))


def _session_process(rng: random.Random) -> Case:
    kind = rng.choice(["session", "dynamic_session"])
    return _case("window_process", {"window": kind, "size": rng.randint(1, 8), **_lateness(rng)}, _records(rng))


def _window_reduce(rng: random.Random) -> Case:
    how, records = _accumulated(rng)
    return _case("window_reduce", {**how, **_lateness(rng), "reduced": rng.random() < 0.5}, records)


def _window_aggregate(rng: random.Random) -> Case:
    how, records = _accumulated(rng)
    return _case("window_aggregate", {**how, **_lateness(rng)}, records)


def _accumulated(rng: random.Random) -> tuple[dict[str, Any], list[list[Any]]]:
    if rng.random() < 0.5:
        return _time_window(rng), _records(rng)
    # Records are in order, because PyFlink loses the accumulator of one of two sessions that a record joins.
    return {"window": "session", "size": rng.randint(1, 8)}, _records(rng, ordered=True)


def _triggered(rng: random.Random) -> Case:
    # Not the continuous trigger: PyFlink fires its timers late or never if they are due when they are set.
    trigger = rng.choice(["purging_event_time", "count", "purging_count"])
    how = _time_window(rng) if trigger != "purging_count" or rng.random() < 0.5 else {"window": "global"}
    parameters = {**how, "trigger": trigger, "count": rng.randint(1, 4)}
    return _case("window_process", parameters, _records(rng))


def _timers(rng: random.Random) -> Case:
    return _case("timers", {"delay": rng.randint(0, 9)}, _records(rng))


def _count_window(rng: random.Random) -> Case:
    count = rng.randint(1, 4)
    return _case("count_window", {"count": count, "slide": rng.choice([0, rng.randint(1, count)])}, _records(rng))


def _window_all(rng: random.Random) -> Case:
    return _case("window_all", _time_window(rng), _records(rng))


def _rolling_reduce(rng: random.Random) -> Case:
    return _case("rolling_reduce", {}, _records(rng))


def _side_outputs(rng: random.Random) -> Case:
    return _case("side_outputs", {}, _records(rng))


def _join(rng: random.Random) -> Case:
    # No late records, because the engine may read either side first.
    return _case("join", {"span": rng.randint(0, 9)}, _records(rng, late=False))
