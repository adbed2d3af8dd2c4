"""Names of code in flame graphs: modules and functions, no paths, and whose code it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.streaming.operators.fused_code import RowStep, Step, compile_steps, operator_of_line
from flinkpy.taskexecutor.code_names import MAX_NAME_CHARS, CodeNames
from flinkpy.taskexecutor.task_thread import TaskThread


class Function:
    def map(self, value: int) -> int:
        return value


def compiled(path: str, source: str = "def parse():\n    pass\n") -> CodeType:
    namespace: dict[str, Any] = {}
    exec(compile(source, path, "exec"), namespace)
    found: CodeType = namespace["parse"].__code__
    return found


@pytest.mark.parametrize(
    ("code", "name", "kind"),
    [
        (TaskThread.join.__code__, "flinkpy.taskexecutor.task_thread.TaskThread.join", pb.CODE_RUNTIME),
        (json.dumps.__code__, "json.dumps", pb.CODE_LIBRARY),
        (threading.Thread.join.__code__, "threading.Thread.join", pb.CODE_LIBRARY),
        (Function.map.__code__, "test_code_names.Function.map", pb.CODE_USER),
        (compiled("/home/somebody/secret project/job.py"), "job.parse", pb.CODE_USER),
        (compiled("<string>"), "<string>.parse", pb.CODE_USER),
        (compiled("<flinkpy rolling>"), "rolling (generated)", pb.CODE_RUNTIME),
    ],
)
def test_code_has_the_name_of_its_module_and_function(code: CodeType, name: str, kind: int) -> None:
    library = Path(json.__file__).parents[1]
    found = CodeNames([str(library), str(Path(__file__).parent), ""]).name(code, 0)
    assert (found.name, found.kind) == (name, kind)
    assert found.line == (0 if "generated" in name else code.co_firstlineno)
    assert found.to_proto().kind == kind


def test_a_generated_loop_has_the_name_of_the_operator_whose_function_it_calls() -> None:
    def fail(value: int) -> int:
        raise ValueError(value)

    def instruction_of(index: int) -> tuple[CodeType, int]:
        """Returns where the loop is when the function of the operator `index` runs."""
        functions: list[Callable[[Any], Any]] = [lambda value: value, lambda value: value]
        functions[index] = fail
        fused.append(compile_steps([Step(RowStep.MAP, one) for one in functions], ["parse", "enrich"]))
        with pytest.raises(ValueError, match="1") as raised:
            fused[-1].values_only([1])
        frame = [one for one in raised.traceback if str(one.path) == fused[-1].file_name][-1]
        return frame.frame.code.raw, frame._rawentry.tb_lasti

    fused: list[Any] = []
    for index, name in enumerate(["parse", "enrich"]):
        found = CodeNames().name(*instruction_of(index))
        assert (found.name, found.line, found.kind) == (f"{name} (fused loop)", 0, pb.CODE_RUNTIME)
    code, _ = instruction_of(0)
    assert CodeNames().name(code, 0).name == "parse -> enrich (fused loop)", "the head of the loop serves both"
    file_name = fused[0].file_name
    assert operator_of_line(file_name, 4) is not None
    fused.clear()
    assert operator_of_line(file_name, 4) is None, "the chain is gone"
    assert CodeNames().name(*_at_line(code, 4)).name == "parse -> enrich (fused loop)"


def _at_line(code: CodeType, line: int) -> tuple[CodeType, int]:
    return code, next(start for start, _, each in code.co_lines() if each == line)


def test_the_line_is_that_of_the_instruction_and_names_are_bounded() -> None:
    code = compiled("/jobs/job.py", "def parse():\n    one = 1\n    two = 2\n    return one + two\n")
    lines = [CodeNames([]).name(code, start).line for start, _, line in code.co_lines() if line]
    assert sorted(set(lines)) == [1, 2, 3, 4]
    assert CodeNames([]).name(code, -1).line == 1, "a frame that has not started"
    long = code.replace(co_qualname="f" * 10_000)
    assert len(CodeNames([]).name(long, 0).name) <= MAX_NAME_CHARS
