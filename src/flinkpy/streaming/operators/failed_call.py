"""Tells with which arguments a user's function was called when it raised: most often that is the record to blame."""

from __future__ import annotations

import dis
import inspect
import traceback
from types import CodeType, FrameType

from flinkpy.common.error_text import safe_repr

#: Characters of each argument, and the arguments, that are shown: a record should be recognised, not archived.
MAX_ARGUMENT_CHARS = 200
MAX_ARGUMENTS = 3

_PACKAGE = __name__.partition(".")[0]


def failed_call(error: BaseException) -> str:
    """`parse(line='a,b')` for the first function of the user's on the traceback; empty where that cannot be told.

    The arguments are read from the function's frame, so this costs nothing as long as nothing fails. An argument that
    the function assigns to has lost the value it was called with and is shown as `...`. What flinkpy passes itself
    (`self` of its classes, a context, a collector) is left out.
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
    """The frame that flinkpy called; None where the error did not come up in a function that it called."""
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
    """Local variables that the code assigns to or deletes."""
    names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF")):
            # Python 3.13 has instructions for two variables at once.
            both = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            names.update(map(str, both))
    return names


def _is_record(value: object) -> bool:
    """True for a class of flinkpy that records are made of."""
    return not inspect.isclass(value) and type(value).__module__ == f"{_PACKAGE}.common.types"
