"""nexmark: q0 to q23 as SQL, here and on Flink, in one run. A ratio is printed after the results have been compared.

Both sides generate the same events in their tasks and drop the results. Before that, every query runs once on fewer
events on both sides, and its result is compared row by row. Flink's results are kept in `.bench`, because they depend
only on the events and the texts.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.nexmark.changes import WrongResultError, check_equal, table_of, winning_bids
from benchmarks.nexmark.flink import HOME, JAVA, run_flink
from benchmarks.nexmark.here import run_here
from benchmarks.nexmark.statements import NAMES, PATTERN_NAMES, QUERIES, Input, statements
from benchmarks.result import Result

PARALLELISM = 2
DEFAULT_EVENTS = 5_000_000
#: Events per second of event time: that of Nexmark's second version.
RATE = 100_000
#: The events of compared results. They span 100 seconds of event time, so that windows end, auctions expire, and
#: sessions have gaps.
COMPARED = Input(200_000, 2_000)
#: The first query runs once more before all others, so that neither side measures its own start.
WARM_UP = "q0"
#: Each query also runs on this part of the events. The difference of both times leaves out its start.
SMALL_SHARE = 4
_SMALL = "-small"
MEMORY_QUERY = "q20"
TIMEOUT_S = 3600.0

_MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}
#: Nexmark sets this for Flink. Here two phases already send each distinct value of a bundle once, and a second
#: aggregation would cost several times as much.
_FLINK_MINI_BATCH = {"table.optimizer.distinct-agg.split.enabled": "true"}


@dataclass(frozen=True, slots=True)
class Mode:
    """Settings of both sides. Nexmark's second version has those of `rocksdb`, with ForSt instead."""

    settings: dict[str, str]
    bar: float
    lowest: float | None


MODES = {
    "plain": Mode({}, 5, 2),
    "mini-batch": Mode(_MINI_BATCH, 10, 3),
    "rocksdb": Mode(
        {
            **_MINI_BATCH,
            "state.backend.type": "rocksdb",
            "execution.checkpointing.interval": "10 s",
            "execution.checkpointing.incremental": "true",
        },
        5,
        None,
    ),
}

#: Queries whose results cannot be compared, and why.
NOT_COMPARED = {
    "q6": "Flink cannot run it: its OVER aggregates in an order other than time take no updates",
    "q12": "its windows are those of the clock, and open ones are dropped at the end of the input",
}


def run(
    queries: list[str] | None = None,
    events: int = DEFAULT_EVENTS,
    modes: list[str] | None = None,
    sides: str = "both",
    fields: str = "needed",
) -> list[Result]:
    """Returns a result per mode and query, the geometric mean of each mode, and the memory of one query.

    Args:
        queries: their names; None for all.
        events: the number of events of each measured query.
        modes: keys of MODES; None for all.
        sides: `both`, or `flink` to measure Flink alone.
        fields: `all` to make our source generate fields that the query does not read, as Flink's does.
    """
    names = queries or list(NAMES)
    with_ours = sides == "both"
    wrong = check_results(names) if with_ours else {}
    results: list[Result] = []
    given = Input(events, RATE, fields == "all")
    for mode in modes or list(MODES):
        results += _measure(mode, names, given, wrong, with_ours)
    if MEMORY_QUERY in names:
        results.append(_memory(given, wrong, with_ours))
    return results


def run_patterns(events: int = DEFAULT_EVENTS, modes: list[str] | None = None) -> list[Result]:
    """Returns the results of the queries with MATCH_RECOGNIZE, without mini-batches, which do not concern them."""
    return run(list(PATTERN_NAMES), events, modes or ["plain"])


def check_results(names: list[str]) -> dict[str, str]:
    """Compares results on fewer events. Returns, per query that is not equal or does not run here, the reason."""
    theirs = _flink_results(names)
    ours_folder = _empty(HOME / "compared" / "flinkpy")
    told = run_here(_programs(names, COMPARED, ours_folder, changes=True), {}, PARALLELISM, TIMEOUT_S)
    wrong = {}
    for name in names:
        if "error" in told[name]:
            wrong[name] = f"not yet: {told[name]['error']}"
        elif name not in NOT_COMPARED:
            try:
                expected = table_of(theirs / "output" / name)
                if name == "q9":
                    expected = winning_bids(expected)
                check_equal(table_of(ours_folder / "output" / name), expected)
            except WrongResultError as error:
                wrong[name] = f"WRONG: {error}"
    return wrong


def _flink_results(names: list[str]) -> Path:
    """Returns the folder of Flink's results, and computes those that are not there."""
    text = b"".join(path.read_bytes() for path in sorted([*QUERIES.glob("*.sql"), *JAVA.rglob("*.java")]))
    folder = HOME / "compared" / f"flink-{hashlib.sha256(text + repr(COMPARED).encode()).hexdigest()[:12]}"
    missing = [name for name in names if not (folder / "done" / name).exists()]
    if missing:
        told = run_flink(_programs(missing, COMPARED, folder, changes=True), {}, PARALLELISM, TIMEOUT_S)
        (folder / "done").mkdir(parents=True, exist_ok=True)
        for name in missing:
            if "error" in told[name] and name not in NOT_COMPARED:
                raise RuntimeError(f"Flink cannot run {name}: {told[name]['error']}")
            (folder / "done" / name).touch()
    return folder


def _programs(names: list[str], given: Input, folder: Path, changes: bool = False, suffix: str = "") -> list[Path]:
    """Writes the statements of the queries as files."""
    (folder / "programs").mkdir(parents=True, exist_ok=True)
    files = []
    for name in names:
        output = folder / "output" / f"{name}{suffix}"
        shutil.rmtree(output, ignore_errors=True)
        file = folder / "programs" / f"{name}{suffix}.sql"
        file.write_text(statements(name, given, output, changes))
        files.append(file)
    return files


def measured_programs(names: list[str], given: Input) -> list[Path]:
    """Returns the programs of both sizes of each query, after that of the warm-up."""
    folder = _empty(HOME / "measured")
    small = replace(given, events=given.events // SMALL_SHARE)
    both = zip(_programs(names, small, folder, suffix=_SMALL), _programs(names, given, folder))
    return [*_programs([WARM_UP], small, folder, suffix="-warm-up"), *(file for pair in both for file in pair)]


def _for_flink(given: Input) -> Input:
    """Returns the input without the option that only our connector has."""
    return replace(given, has_all_fields=False)


def _measure(mode: str, names: list[str], given: Input, wrong: dict[str, str], with_ours: bool) -> list[Result]:
    settings = dict(MODES[mode].settings)
    if "execution.checkpointing.interval" in settings:
        settings["execution.checkpointing.dir"] = f"file://{HOME / 'measured' / 'checkpoints'}"
    flinks = {**settings, **_FLINK_MINI_BATCH} if "table.exec.mini-batch.enabled" in settings else settings
    theirs = run_flink(measured_programs(names, _for_flink(given)), flinks, PARALLELISM, TIMEOUT_S)
    runnable = [name for name in names if not wrong.get(name, "").startswith("not yet")]
    ours: dict[str, dict[str, Any]] = {}
    if with_ours and runnable:
        ours = run_here(measured_programs(runnable, given), settings, PARALLELISM, TIMEOUT_S)
    results = [
        _result(mode, name, rates_between(name, given, ours), rates_between(name, given, theirs), wrong.get(name))
        for name in names
    ]
    ratios = [result.ratio for result in results if result.ratio is not None]
    if ratios:
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        note = f"geometric mean of {len(ratios)} of {len(names)} queries"
        results.append(Result(f"nexmark {mode}", mean, 1.0, "x", "Flink SQL", mean, MODES[mode].bar, note))
    return results


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast one side runs a query.

    Attributes:
        rate: million events per second.
        cpu_rate: million events per second of CPU.
        error: the reason if there are no rates.
    """

    rate: float = math.nan
    cpu_rate: float = math.nan
    error: str = ""


def rates_between(name: str, given: Input, told: dict[str, dict[str, Any]]) -> Rates:
    """Returns the rates between two sizes of the same query, so that its start does not count."""
    if name not in told:
        return Rates(error="not run")
    small, large = told[f"{name}{_SMALL}"], told[name]
    for each in (small, large):
        if "error" in each:
            return Rates(error=each["error"].splitlines()[0][:120])
    events = (given.events - given.events // SMALL_SHARE) / 1e6
    seconds, cpu_seconds = large["job_s"] - small["job_s"], large["cpu_s"] - small["cpu_s"]
    if seconds <= 0 or cpu_seconds <= 0:
        return Rates(error=f"{given.events} events are too few: they take no longer than a part of them")
    return Rates(events / seconds, events / cpu_seconds)


def _result(mode: str, name: str, ours: Rates, theirs: Rates, wrong: str | None) -> Result:
    notes = [wrong] if wrong else [f"not yet: {ours.error}"] if ours.error and ours.error != "not run" else []
    notes.append(f"Flink: {theirs.error or f'{theirs.cpu_rate:.2f} M/s of CPU'}")
    has_both = not (wrong or ours.error or theirs.error)
    if has_both:
        notes.append(f"by CPU {ours.cpu_rate / theirs.cpu_rate:.2f}x")
    ratio = ours.rate / theirs.rate if has_both else None
    title = f"nexmark {mode} {name}"
    return Result(title, ours.rate, theirs.rate, "M events/s", "Flink SQL", ratio, MODES[mode].lowest, "; ".join(notes))


def _memory(given: Input, wrong: dict[str, str], with_ours: bool) -> Result:
    """Measures the largest resident size of one query, in processes that run nothing else."""
    title = f"nexmark memory {MEMORY_QUERY}"
    folder = _empty(HOME / "measured")
    programs = _programs([MEMORY_QUERY], _for_flink(given), folder)
    theirs = run_flink(programs, {}, PARALLELISM, TIMEOUT_S, heap="12g")[MEMORY_QUERY]
    if "error" in theirs or not with_ours or MEMORY_QUERY in wrong:
        note = theirs.get("error") or wrong.get(MEMORY_QUERY, "")
        return Result(title, math.nan, theirs.get("peak_rss_mb"), "MB resident", "Flink SQL", None, None, note)
    _empty(folder)
    ours = run_here(_programs([MEMORY_QUERY], given, folder), {}, PARALLELISM, TIMEOUT_S)[MEMORY_QUERY]
    if "error" in ours:
        return Result(title, math.nan, theirs["peak_rss_mb"], "MB resident", "Flink SQL", None, None, ours["error"])
    ratio = theirs["peak_rss_mb"] / ours["peak_rss_mb"]
    return Result(title, ours["peak_rss_mb"], theirs["peak_rss_mb"], "MB resident", "Flink SQL", ratio, 1.0)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
