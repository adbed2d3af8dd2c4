"""Generates Python functions for a chain of map, filter and flat_map functions.

The code has two forms. If records have only values, it is a list comprehension, in which `for x in [expr]` is an
assignment that the compiler recognises. If records have timestamps or row kinds, it is a loop that also returns the
input position of each output. Every step has its own line, so the line number in a traceback shows which operator's
function raised. The result of a step with a declared type is checked on the same line.

Python nests at most 20 loops, so a long chain is cut into segments. Each segment except the last is a generator that
feeds the next one, so records still go through the whole chain one by one. A chain of usual length is one segment and
has no extra cost.
"""

from __future__ import annotations

import enum
import linecache
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flinkpy.records.type_check import TypeCheck

#: The maximum number of flat_maps per segment. Each is a nested loop, and Python nests at most 20.
MAX_NESTED_LOOPS = 16
#: The maximum number of steps per segment. The compiler processes them by recursion.
MAX_SEGMENT_STEPS = 256
#: The maximum number of generators that feed each other. Each resumes the one before it on the stack, so after this
#: many the values are collected in a list.
MAX_NESTED_GENERATORS = 32


class RowStep(enum.Enum):
    MAP = "map"
    FILTER = "filter"
    FLAT_MAP = "flat_map"


@dataclass(frozen=True, slots=True)
class Step:
    """One function of the chain.

    Attributes:
        check: checks results against their declared type, if there is one.
        on_misfit: called with a result that fails the check. Raises, or returns True to accept the result.
    """

    kind: RowStep
    function: Callable[[Any], Any]
    check: TypeCheck | None = None
    on_misfit: Callable[[Any], bool] | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FusedFunctions:
    """The compiled functions of a chain.

    Attributes:
        values_only: takes rows and returns rows.
        with_indices: takes rows and returns (rows, input position of each row). The positions ascend.
        keeps_positions: True if the chain has only maps. Output i belongs to input i then.
    """

    values_only: Callable[[list[Any]], list[Any]]
    with_indices: Callable[[list[Any]], tuple[list[Any], list[int]]]
    keeps_positions: bool
    file_name: str
    #: The names of the operators.
    names: tuple[str, ...]
    #: The step of each line of the generated file.
    _steps_of_lines: dict[int, int]

    def step_of_line(self, line: int) -> int | None:
        """Returns the step whose code is on `line` of the generated file."""
        return self._steps_of_lines.get(line)


#: The chains of this process, by the names of their generated files.
_COMPILED: weakref.WeakValueDictionary[str, FusedFunctions] = weakref.WeakValueDictionary()


def operator_of_line(file_name: str, line: int) -> str | None:
    """Returns the name of the operator whose function is called on a line of generated code. Thread: any.

    Returns None for lines that serve the whole chain, and for chains that do not exist any more.
    """
    fused = _COMPILED.get(file_name)
    step = None if fused is None else fused.step_of_line(line)
    return None if fused is None or step is None else fused.names[step]


def compile_steps(steps: Sequence[Step], names: Sequence[str]) -> FusedFunctions:
    """Compiles the chain. The functions are local variables of the generated code.

    Args:
        names: the name of the operator of each step.
    """
    code = _Code()
    segments = _segments(steps)
    for number, segment in enumerate(segments):
        code.add_segment(number, steps, segment, is_last=number == len(segments) - 1)
    file_name = f"<flinkpy fused {' -> '.join(names)}>"
    values, indexed = code.compile(file_name)
    keeps_positions = all(step.kind is RowStep.MAP for step in steps)
    fused = FusedFunctions(
        _in_turn(values), _pairs_in_turn(indexed), keeps_positions, file_name, tuple(names), code.steps_of_lines
    )
    _COMPILED[file_name] = fused
    return fused


def _segments(steps: Sequence[Step]) -> list[range]:
    segments = []
    start = loops = 0
    for position, step in enumerate(steps):
        is_loop = step.kind is RowStep.FLAT_MAP
        if position - start >= MAX_SEGMENT_STEPS or (is_loop and loops >= MAX_NESTED_LOOPS):
            segments.append(range(start, position))
            start, loops = position, 0
        loops += is_loop
    segments.append(range(start, len(steps)))
    return segments


def _in_turn(stages: list[Callable[[Any], Any]]) -> Callable[[list[Any]], list[Any]]:
    if len(stages) == 1:
        return stages[0]
    *generators, last = stages

    def values_only(rows: list[Any]) -> list[Any]:
        return last(_fed(rows, generators))

    return values_only


def _pairs_in_turn(stages: list[Callable[[Any], Any]]) -> Callable[[list[Any]], tuple[list[Any], list[int]]]:
    *generators, last = stages

    def with_indices(rows: list[Any]) -> tuple[list[Any], list[int]]:
        return last(_fed(enumerate(rows), generators))

    return with_indices


def _fed(values: Iterable[Any], generators: list[Callable[[Any], Any]]) -> Iterable[Any]:
    for number, generator in enumerate(generators, 1):
        values = generator(values)
        if number % MAX_NESTED_GENERATORS == 0:
            values = list(values)
    return values


class _Code:
    """Collects the lines of the generated file and the objects that it uses."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bound: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self.steps_of_lines: dict[int, int] = {}
        self._num_segments = 0

    def add_segment(self, number: int, steps: Sequence[Step], segment: range, *, is_last: bool) -> None:
        self._num_segments += 1
        self._add_values_only(number, steps, segment, is_last)
        self._add_with_indices(number, steps, segment, is_last)

    def compile(self, file_name: str) -> tuple[list[Callable[[Any], Any]], list[Callable[[Any], Any]]]:
        """Returns the functions of all segments: those for values only, and those with indices."""
        numbers = range(self._num_segments)
        made = ", ".join(f"values_{n}, indexed_{n}" for n in numbers)
        # All names are on the first line, so that the line numbers below do not depend on the number of names.
        source = "\n".join([f"def make({', '.join(self._bound)}):", *self._lines, f"    return [{made}]"]) + "\n"
        namespace: dict[str, Any] = {}
        exec(compile(source, file_name, "exec"), namespace)
        linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
        functions = namespace["make"](*self._bound.values())
        return functions[::2], functions[1::2]

    def _bind(self, value: Any) -> str:
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"b{len(self._names)}"
            self._bound[name] = value
        return name

    def _add(self, line: str, step: int | None = None) -> None:
        self._lines.append(line)
        if step is not None:
            self.steps_of_lines[len(self._lines) + 1] = step

    def _condition(self, step: Step, variable: str) -> str:
        """Returns the condition that a result of the declared type fulfils; empty if no type was declared."""
        if step.check is None or step.on_misfit is None or step.kind is RowStep.FILTER:
            return ""
        fits = step.check.expression(variable, self._bind)
        decide = f"{self._bind(step.on_misfit)}({variable})"
        return decide if fits is None else f"{fits} or {decide}"

    def _add_values_only(self, number: int, steps: Sequence[Step], segment: range, is_last: bool) -> None:
        makers = [i for i in segment if steps[i].kind is not RowStep.FILTER]
        result = f"v{makers[-1]}" if makers else "v"
        opening, closing = ("[", "]") if is_last else ("(", ")")
        self._add(f"    def values_{number}(rows):")
        self._add(f"        return {opening}{result} for v in rows")
        variable = "v"
        for i in segment:
            step = steps[i]
            call = f"{self._bind(step.function)}({variable})"
            if step.kind is RowStep.FILTER:
                self._add(f"            if {call}", i)
                continue
            variable = f"v{i}"
            condition = self._condition(step, variable)
            checked = f" if {condition}" if condition else ""
            if step.kind is RowStep.MAP:
                self._add(f"            for {variable} in [{call}]{checked}", i)
            else:
                self._add(f"            for r{i} in [{call}] if r{i} is not None for {variable} in r{i}{checked}", i)
        self._add(f"        {closing}")

    def _add_with_indices(self, number: int, steps: Sequence[Step], segment: range, is_last: bool) -> None:
        self._add(f"    def indexed_{number}(pairs):")
        if is_last:
            for line in ("out = []", "kept = []", "push = out.append", "keep = kept.append"):
                self._add(f"        {line}")
        self._add("        for i, v in pairs:")
        indent = " " * 12
        for i in segment:
            step = steps[i]
            call = f"{self._bind(step.function)}(v)"
            condition = self._condition(step, "v")
            if step.kind is RowStep.MAP:
                self._add(f"{indent}v = {call}" + (f"; {condition}" if condition else ""), i)
            elif step.kind is RowStep.FILTER:
                self._add(f"{indent}if not {call}: continue", i)
            else:
                self._add(f"{indent}for v in (r if (r := {call}) is not None else ()):", i)
                indent += " "
                if condition:
                    self._add(f"{indent}{condition}", i)
        self._add(f"{indent}push(v); keep(i)" if is_last else f"{indent}yield i, v")
        if is_last:
            self._add("        return out, kept")
