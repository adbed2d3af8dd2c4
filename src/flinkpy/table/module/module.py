"""Module: a named set of functions that queries find without a catalog. CoreModule has the built-in ones.

Source: org.apache.flink.table.module.{Module, CoreModule}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError


class Module(ABC):
    """The base class of modules. Names of functions are not case-sensitive."""

    @abstractmethod
    def list_functions(self) -> Collection[str]:
        """Returns the names of the functions."""

    @abstractmethod
    def get_function(self, name: str) -> Any:
        """Returns a function made by `udf`, `udtf`, `udaf` or `udtaf`; None if the module has none of this name."""

    def has_function(self, name: str) -> bool:
        """True if the module has a function of this name."""
        wanted = name.lower()
        return any(each.lower() == wanted for each in self.list_functions())


@dataclass(frozen=True)
class ModuleEntry:
    """A loaded module. Source: pyflink.table.module.ModuleEntry."""

    module_name: str
    is_used: bool

    def name(self) -> str:
        return self.module_name

    def used(self) -> bool:
        return self.is_used


class HiveModule:
    """Hive's functions, which PyFlink loads from a JAR. They cannot be called here.

    Args:
        hive_version: the release of Hive.

    Raises: UnsupportedOperationError, always.
    """

    def __init__(self, hive_version: str | None = None) -> None:
        raise UnsupportedOperationError(
            "HiveModule calls Hive's functions, which are Java classes, and flinkpy has no JVM. Write a Module with "
            "functions in Python.",
            details={"module": "hive"},
        )


class CoreModule(Module):
    """The built-in functions of Flink SQL. The planner finds their definitions by their names."""

    def list_functions(self) -> Collection[str]:
        from flinkpy.sql.functions.registry import function_names

        return function_names()

    def get_function(self, name: str) -> Any:
        return None

    def has_function(self, name: str) -> bool:
        from flinkpy.sql.functions.registry import find_function

        return find_function(name) is not None
