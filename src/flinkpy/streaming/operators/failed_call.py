"""Describes the call of a user function that raised, with its arguments. They usually contain the bad record."""

from __future__ import annotations

import dis
import inspect
import traceback
from types import CodeType, FrameType

from flinkpy.common.error_text import safe_repr

#: The maximum length of an argument in characters, and the maximum number of arguments. Enough to recognise a record.
MAX_ARGUMENT_CHARS = 200
MAX_ARGUMENTS = 3

_PACKAGE = __name__.partition(".")[0]


def failed_call(error: BaseException) -> str:
    """Returns the first call of a user function on the traceback, such as `parse(line='a,b')`; '' if it is unknown.

    The arguments are read from the function's frame, so calls that do not fail cost nothing. An argument that the
    function assigns to is shown as `...`, because its original value is lost. Arguments that flinkpy passes itself
    (`self` of its classes, a context, a collector) are left out.
    """
    frame = _first_user_frame(error)
    if frame is None or frame.f_code.co_name == "<module>":
        return ""
    code = frame.f_code
    assigned = _assigned_names(code)
    names = code.co_varnames[: code.co_argcount]
    shown = []
    for position, name in enumerate(names):
        if position == 0 and name in ("self", "cls"):
            continue
        value = frame.f_locals.get(name, ...)
        if type(value).__module__.partition(".")[0] == _PACKAGE and not _is_record(value):
            continue
        is_known = name in frame.f_locals and name not in assigned
        shown.append(f"{name}={safe_repr(value, MAX_ARGUMENT_CHARS) if is_known else '...'}")
    more = ", ..." if len(shown) > MAX_ARGUMENTS else ""
    return f"{code.co_qualname.rpartition('.<locals>.')[2]}({', '.join(shown[:MAX_ARGUMENTS])}{more})" if shown else ""


def _first_user_frame(error: BaseException) -> FrameType | None:
    """Returns the first frame that flinkpy called; None if the error was not raised in such a function."""
    has_runtime = False
    for frame, _ in traceback.walk_tb(error.__traceback__):
        is_runtime = _is_runtime(frame)
        if has_runtime and not is_runtime:
            return frame
        has_runtime = has_runtime or is_runtime
    return None


def _is_runtime(frame: FrameType) -> bool:
    file = frame.f_code.co_filename.replace("\\", "/")
    return f"/{_PACKAGE}/" in file or file.startswith(f"<{_PACKAGE}")


def _assigned_names(code: CodeType) -> set[str]:
    """Returns the names of local variables that the code assigns to or deletes."""
    names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF")):
            # Python 3.13 has instructions that store two variables.
            both = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            names.update(map(str, both))
    return names


def _is_record(value: object) -> bool:
    """True if the value is an instance of a flinkpy class that is used in records."""
    return not inspect.isclass(value) and type(value).__module__ == f"{_PACKAGE}.common.types"
