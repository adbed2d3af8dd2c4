"""Validation of names that a program gives to jobs, operators, outputs, metrics and accumulators."""

from __future__ import annotations

from typing import Any

from flinkpy.common.error_text import safe_repr
from flinkpy.common.errors import UserError

#: Maximum length. Each report and log line of a task contains the name. A whole SQL statement fits.
MAX_NAME_CHARS = 10_000


def check_name(name: Any, what: str) -> str:
    """Returns `name` if it can be sent to a cluster.

    Args:
        name: the name.
        what: the kind of name with its article; error messages begin with it.

    Raises:
        TypeError: the name is not a str.
        UserError: the name is too long, or UTF-8 cannot encode it.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not a {type(name).__name__}: {safe_repr(name)}")
    if len(name) > MAX_NAME_CHARS:
        raise UserError(f"{what} has {len(name)} characters, more than {MAX_NAME_CHARS}: {safe_repr(name)}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{what} is not valid text ({error.reason} at {error.start}): {safe_repr(name)}") from None
    return name
