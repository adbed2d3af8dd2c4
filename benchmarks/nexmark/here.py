"""Runs SQL files on flinkpy in a process of its own: `python -m benchmarks.nexmark.here SETTINGS PARALLELISM FILE ...`.

SETTINGS is a file of lines `key=value`. A line of JSON is printed for each file, as `java/` does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from benchmarks.nexmark.flink import told_by
from benchmarks.nexmark.statements import split
from benchmarks.peers import ROOT

_POLL_S = 0.1
#: The entry points that an installed package of these tables declares.
_ENTRY_POINTS = """[flinkpy.table.factories]
nexmark-changes = benchmarks.nexmark.tables:ChangesTableFactory
nexmark-side-input = benchmarks.nexmark.tables:SideInputTableFactory
"""


def run_here(
    programs: list[Path], settings: dict[str, str], parallelism: int, timeout_s: float
) -> dict[str, dict[str, Any]]:
    """Runs SQL files one after the other. Returns the same as `run_flink`."""
    folder = programs[0].parent
    configuration = folder / "flinkpy.properties"
    configuration.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    package = folder / "package" / "nexmark_tables-1.dist-info"
    package.mkdir(parents=True, exist_ok=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: nexmark-tables\nVersion: 1\n")
    (package / "entry_points.txt").write_text(_ENTRY_POINTS)
    path = os.pathsep.join([str(package.parent), str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    command = [sys.executable, "-m", "benchmarks.nexmark.here", str(configuration), str(parallelism)]
    environment = dict(os.environ, PYTHONPATH=path)
    return told_by([*command, *map(str, programs)], len(programs), timeout_s, environment, folder)


class _Usage:
    """The CPU time and the largest resident size of this process and its children."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._used: dict[int, float] = {}
        self.peak_bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Usage:
        self._sample()
        self._begin_s = sum(self._used.values())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._sample()

    @property
    def cpu_s(self) -> float:
        return sum(self._used.values()) - self._begin_s

    def _watch(self) -> None:
        while not self._is_over.wait(_POLL_S):
            self._sample()

    def _sample(self) -> None:
        resident = 0
        for process in [self._process, *self._process.children(recursive=True)]:
            try:
                self._used[process.pid] = sum(process.cpu_times()[:2])
                resident += process.memory_info().rss
            except psutil.Error:
                continue
        self.peak_bytes = max(self.peak_bytes, resident)


def _count_char() -> Any:
    """Returns the function of query 14, which counts a character in texts."""
    import pyarrow.compute as pc

    return _functions().udf(
        lambda text, character: pc.count_substring(text, character[0].as_py()).cast("int64"),
        result_type=_tables().DataTypes.BIGINT(),
        func_type="arrow",
    )


def _tables() -> Any:
    return import_module("flinkpy.table")


def _functions() -> Any:
    return import_module("flinkpy.table.udf")


def _run(settings: dict[str, str], parallelism: int, file: Path) -> dict[str, Any]:
    tables = _tables()
    environment = tables.TableEnvironment.create(tables.EnvironmentSettings.in_streaming_mode())
    for key, value in {"parallelism.default": str(parallelism), **settings}.items():
        environment.get_config().set(key, value)
    environment.create_temporary_system_function("count_char", _count_char())
    *before, last = split(file.read_text())
    for statement in before:
        environment.execute_sql(statement)
    with _Usage() as usage:
        begin = time.perf_counter()
        client = environment.execute_sql(last).get_job_client()
        net_ms = client.get_job_execution_result().result().get_net_runtime()
        total_s = time.perf_counter() - begin
    return {
        "job_s": net_ms / 1e3,
        "total_s": round(total_s, 3),
        "cpu_s": round(usage.cpu_s, 3),
        "peak_rss_mb": usage.peak_bytes >> 20,
    }


def main() -> None:
    settings_file, parallelism, *files = sys.argv[1:]
    settings = dict(line.split("=", 1) for line in Path(settings_file).read_text().splitlines() if line)
    for file in map(Path, files):
        try:
            told = _run(settings, int(parallelism), file)
        except Exception as error:  # noqa: BLE001 - reported for this query; the others still run
            first = next(iter(str(error).strip().splitlines()), "")
            told = {"error": f"{type(error).__name__}: {first}"}
        print(json.dumps({"query": file.stem, **told}), flush=True)


if __name__ == "__main__":
    main()
