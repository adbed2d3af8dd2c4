"""Settings for a child process, those that nobody should see not on its command line.

A command line is in every process list, an environment in /proc. What `is_sensitive` says of is written into memory
that has no name and that only the child inherits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from flinkpy.configuration.redaction import is_sensitive

#: The descriptor that a process has inherited.
CONFIDENTIAL_VARIABLE = "FLINKPY_CONFIDENTIAL_FD"
_NAME = "flinkpy-confidential"


@dataclass(frozen=True, slots=True)
class SettingsForChild:
    """What a child process needs to have all settings.

    Attributes:
        arguments: for its command line.
        environment: beside what it gets anyway.
        descriptors: to be inherited under the same numbers.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...]


@contextmanager
def settings_for_child(entries: Mapping[str, str]) -> Iterator[SettingsForChild]:
    """The child must be started before the block ends."""
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
    """What this process's parent gave it, if it is a child that was started so; may be asked again and again."""
    number = os.environ.get(CONFIDENTIAL_VARIABLE, "")
    if not number.isdecimal():
        return {}
    path = f"/proc/self/fd/{number}"
    try:
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):
            return {}  # inherited the variable, not the descriptor: a program that such a child has started
        with open(path, "rb") as memory:
            settings: dict[str, str] = json.loads(memory.read())
            return settings
    except OSError:
        return {}
