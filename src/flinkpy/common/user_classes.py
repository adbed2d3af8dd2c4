"""Makes objects of classes that users name in options by their paths, such as `jobs.policies.Announce`."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

from flinkpy.common.errors import ConfigurationError

T = TypeVar("T")


def object_of(path: str, base: type[T], kind: str, arguments: tuple[str, ...] = ()) -> T:
    """Returns a new object of a class.

    Args:
        path: module and class.
        base: the class from which it must be derived.
        kind: the name of such objects in errors, such as "partition commit policy".
        arguments: those of the constructor.

    Raises: ConfigurationError if the class is not there, is not derived from `base`, or does not take the arguments.
    """
    module, _, name = path.rpartition(".")
    try:
        found: Any = getattr(importlib.import_module(module), name)
        if not issubclass(found, base):
            raise TypeError(f"it is not derived from {base.__name__}")
        made: T = found(*arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path} is no {kind}: {error}", details={"class": path}) from error
    return made
