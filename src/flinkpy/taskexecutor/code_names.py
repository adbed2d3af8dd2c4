"""CodeNames: how flame graphs name the code of a process, and whose code it is."""

from __future__ import annotations

import dis
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.common.error_text import bounded_text
from flinkpy.streaming.operators.fused_code import operator_of_line
from flinkpy.taskexecutor.task_thread import is_user_file

_SOURCES_DIR = str(Path(__file__).resolve().parents[2])
_PACKAGE_DIR = os.path.join(_SOURCES_DIR, "flinkpy") + os.sep
_FUSED = "<flinkpy fused "
_GENERATED = "<flinkpy "
#: The maximum length of a name. Names of user functions may be of any length.
MAX_NAME_CHARS = 300

#: A thread that gives up the interpreter between two instructions does so at one of these, or after a call.
_EXECUTING = tuple(
    number
    for name, number in dis.opmap.items()
    if name == "RESUME" or name.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD"))
)


@dataclass(frozen=True, slots=True)
class FrameName:
    """A frame of a stack: what runs there, at which line, and whose code it is. Line 0: generated code."""

    name: str
    line: int
    kind: int

    def to_proto(self) -> pb.SampledFrame:
        return pb.SampledFrame(name=self.name, line=self.line, kind=pb.CodeKind.Name(self.kind))


class CodeNames:
    """Names positions in code objects. Reads no frames and runs no user code.

    Args:
        search_path: the directories of modules; a module is named by its path below the longest that fits.
    """

    def __init__(self, search_path: Iterable[str] | None = None) -> None:
        known = sys.path if search_path is None else search_path
        roots = {os.path.join(os.path.abspath(entry), "") for entry in known if entry} | {_SOURCES_DIR + os.sep}
        self._roots = sorted(roots - {os.sep}, key=len, reverse=True)
        self._modules: dict[str, str] = {}
        #: The first instructions of the lines, and the lines, by the id of the code object.
        self._lines: dict[int, tuple[list[int], list[int]]] = {}

    def name(self, code: CodeType, instruction: int) -> FrameName:
        """Returns the name of the frame that is at `instruction` (`f_lasti`) of `code`."""
        path = code.co_filename
        line = self._line(code, instruction)
        if path.startswith(_FUSED):
            operators = path[len(_FUSED) : -1]
            name = operator_of_line(path, line) or operators
            return FrameName(bounded_text(f"{name} (fused loop)", MAX_NAME_CHARS), 0, pb.CODE_RUNTIME)
        if path.startswith(_GENERATED):
            name = f"{path[len(_GENERATED) : -1]} (generated)"
            return FrameName(bounded_text(name, MAX_NAME_CHARS), 0, pb.CODE_RUNTIME)
        name = bounded_text(f"{self._module(path)}.{code.co_qualname}", MAX_NAME_CHARS)
        return FrameName(name, line, self._kind(path))

    @staticmethod
    def is_executing(code: CodeType, instruction: int) -> bool:
        """True if a thread whose innermost frame is there cannot be inside a call that waits.

        It runs, or waits for the interpreter: the evaluation loop gives the interpreter up at such instructions.
        """
        return code.co_code[instruction] in _EXECUTING if 0 <= instruction < len(code.co_code) else False

    def _line(self, code: CodeType, instruction: int) -> int:
        known = self._lines.get(id(code))
        if known is None:
            ranges = [(start, line) for start, _, line in code.co_lines() if line is not None]
            known = self._lines[id(code)] = ([start for start, _ in ranges], [line for _, line in ranges])
        starts, lines = known
        position = bisect_right(starts, max(instruction, 0)) - 1
        return lines[position] if position >= 0 else code.co_firstlineno

    def _module(self, path: str) -> str:
        module = self._modules.get(path)
        if module is None:
            module = self._modules[path] = self._find_module(path)
        return module

    def _find_module(self, path: str) -> str:
        if path.startswith("<"):
            return path
        for root in self._roots:
            if path.startswith(root):
                parts = path[len(root) :].removesuffix(".py").split(os.sep)
                if len(parts) > 1 and parts[-1] == "__init__":
                    del parts[-1]
                return ".".join(parts)
        # E.g. the main script of a program, which runs here by value: no path of the client's host is shown.
        return os.path.basename(path).removesuffix(".py")

    @staticmethod
    def _kind(path: str) -> int:
        if path.startswith(_PACKAGE_DIR):
            return pb.CODE_RUNTIME
        return pb.CODE_USER if is_user_file(path) else pb.CODE_LIBRARY
