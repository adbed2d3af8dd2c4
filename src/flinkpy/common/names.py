"""Names that a program gives to its jobs, operators, outputs, metrics and accumulators."""

from __future__ import annotations

from typing import Any

from flinkpy.common.error_text import safe_repr
from flinkpy.common.errors import UserError

#: Longest name. Names travel with each report of a task and stand in each line of its log; a name that is a whole SQL
#: statement fits.
MAX_NAME_CHARS = 10_000


def check_name(name: Any, what: str) -> str:
    """Returns `name`, which can be sent to a cluster.

    Args:
        what: the kind of name, with its article: begins the error's message.

    Raises: TypeError where it is no str, UserError where UTF-8 cannot encode it or it is longer than a name may be.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not a {type(name).__name__}: {safe_repr(name)}")
    if len(name) > MAX_NAME_CHARS:
        raise UserError(f"{what} has {len(name)} characters, {MAX_NAME_CHARS} are possible: {safe_repr(name)}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{what} is not valid text ({error.reason} at {error.start}): {safe_repr(name)}") from None
    return name
