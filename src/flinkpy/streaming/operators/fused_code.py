"""Generates one Python function for a chain of map, filter and flat_map functions.

Two forms. Where only values matter it is a single list comprehension; `for x in [expr]` inside one is an assignment,
which the compiler recognises. Where timestamps or row kinds travel along it is a loop that also tells which input
record each output came from. Every step stands on a line of its own, so that the line number in a traceback tells which
operator's function raised.
"""

from __future__ import annotations

import enum
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class RowStep(enum.Enum):
    MAP = "map"
    FILTER = "filter"
    FLAT_MAP = "flat_map"


@dataclass(frozen=True, slots=True)
class FusedFunctions:
    """What `compile_steps` made.

    Attributes:
        values_only: rows -> rows.
        with_indices: rows -> (rows, list of the input position of each), ascending.
        keeps_positions: only maps: output i belongs to input i, and `with_indices` is not needed.
        first_line: line of step 0 in the generated file; step i is i lines below, in both functions.
    """

    values_only: Callable[[list[Any]], list[Any]]
    with_indices: Callable[[list[Any]], tuple[list[Any], list[int]]]
    keeps_positions: bool
    file_name: str
    first_line_values: int
    first_line_indices: int

    def step_of_line(self, line: int, num_steps: int) -> int | None:
        """The step whose code stands on `line` of the generated file."""
        for first in (self.first_line_values, self.first_line_indices):
            if first <= line < first + num_steps:
                return line - first
        return None


def compile_steps(steps: list[tuple[RowStep, Callable[[Any], Any]]], name: str) -> FusedFunctions:
    """Compile the chain; the functions are bound as local variables of the generated code."""
    kinds = [kind for kind, _ in steps]
    header = ["def make(" + ", ".join(f"f{i}" for i in range(len(steps))) + "):"]
    values_lines, result = _comprehension(kinds)
    header += ["    def values_only(rows):", f"        return [{result} for v in rows"]
    first_line_values = len(header) + 1
    lines = header + values_lines + ["        ]"]
    lines += [
        "    def with_indices(rows):",
        "        out = []",
        "        kept = []",
        "        push = out.append",
        "        keep = kept.append",
        "        for i, v in enumerate(rows):",
    ]
    first_line_indices = len(lines) + 1
    lines += _loop(kinds)
    lines += ["        return out, kept", "    return values_only, with_indices"]
    source = "\n".join(lines) + "\n"
    file_name = f"<flinkpy fused {name}>"
    namespace: dict[str, Any] = {}
    exec(compile(source, file_name, "exec"), namespace)
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
    values_only, with_indices = namespace["make"](*(function for _, function in steps))
    keeps_positions = all(kind is RowStep.MAP for kind in kinds)
    return FusedFunctions(values_only, with_indices, keeps_positions, file_name, first_line_values, first_line_indices)


def _comprehension(kinds: list[RowStep]) -> tuple[list[str], str]:
    """One clause a line, and the name of the last variable."""
    lines = []
    variable = "v"
    for i, kind in enumerate(kinds):
        if kind is RowStep.MAP:
            lines.append(f"            for v{i} in [f{i}({variable})]")
            variable = f"v{i}"
        elif kind is RowStep.FILTER:
            lines.append(f"            if f{i}({variable})")
        else:
            lines.append(f"            for r{i} in [f{i}({variable})] if r{i} is not None for v{i} in r{i}")
            variable = f"v{i}"
    return lines, variable


def _loop(kinds: list[RowStep]) -> list[str]:
    lines = []
    indent = " " * 12
    for i, kind in enumerate(kinds):
        if kind is RowStep.MAP:
            lines.append(f"{indent}v = f{i}(v)")
        elif kind is RowStep.FILTER:
            lines.append(f"{indent}if not f{i}(v): continue")
        else:
            lines.append(f"{indent}for v in (r if (r := f{i}(v)) is not None else ()):")
            indent += "    "
    lines.append(f"{indent}push(v); keep(i)")
    return lines
