"""Passes settings to a child process without showing confidential ones to others.

Other users can see command lines in process lists, and environments in /proc. Settings for which `is_sensitive` is true
are written to anonymous memory, which only the child inherits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from flinkpy.configuration.redaction import is_sensitive

#: The environment variable with the number of the inherited descriptor.
CONFIDENTIAL_VARIABLE = "FLINKPY_CONFIDENTIAL_FD"
_NAME = "flinkpy-confidential"


@dataclass(frozen=True, slots=True)
class SettingsForChild:
    """The inputs of a child process that carry its settings.

    Attributes:
        arguments: arguments of its command line.
        environment: additional environment variables.
        descriptors: descriptors that it must inherit under the same numbers.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...]


@contextmanager
def settings_for_child(entries: Mapping[str, str]) -> Iterator[SettingsForChild]:
    """Makes the settings available to a child, which must be started before the block ends."""
    confidential = {key: value for key, value in entries.items() if is_sensitive(key)}
    arguments = [word for key in sorted(entries.keys() - confidential) for word in ("-D", f"{key}={entries[key]}")]
    descriptor = os.memfd_create(_NAME)
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(json.dumps(confidential).encode())
        yield SettingsForChild(tuple(arguments), {CONFIDENTIAL_VARIABLE: str(descriptor)}, (descriptor,))
    finally:
        os.close(descriptor)


def inherited_settings() -> dict[str, str]:
    """Returns the confidential settings from the parent process; empty if it passed none. Can be called repeatedly."""
    number = os.environ.get(CONFIDENTIAL_VARIABLE, "")
    if not number.isdecimal():
        return {}
    path = f"/proc/self/fd/{number}"
    try:
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):
            return {}  # a program that such a child started: it inherited the variable, but not the descriptor
        with open(path, "rb") as memory:
            settings: dict[str, str] = json.loads(memory.read())
            return settings
    except OSError:
        return {}
