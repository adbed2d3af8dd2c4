"""ModuleFactory: makes the modules of LOAD MODULE; found by the name of the module.

Source: org.apache.flink.table.factories.{ModuleFactory, FactoryUtil}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import entry_points

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.table.module.module import CoreModule, Module

#: The group of entry points: the name is the name of the module, the value a class derived from ModuleFactory.
ENTRY_POINT_GROUP = "flinkpy.table.modules"


class ModuleFactory(ABC):
    """A kind of modules.

    Attributes:
        identifier: the name of the module.
        required_options, optional_options: the keys of the options of LOAD MODULE ... WITH.
    """

    identifier: str
    required_options: Sequence[str] = ()
    optional_options: Sequence[str] = ()

    @abstractmethod
    def create_module(self, options: dict[str, str]) -> Module:
        """Returns a new module. The options have been checked."""


class CoreModuleFactory(ModuleFactory):
    """The module `core`."""

    identifier = "core"

    def create_module(self, options: dict[str, str]) -> Module:
        return CoreModule()


def create_module(name: str, options: dict[str, str]) -> Module:
    """Returns the module of a name.

    Raises:
        ValidationError: no package offers a module of this name, or options are missing or unknown.
        UnsupportedOperationError: the module is Hive's, which needs a JVM.
    """
    if "type" in options:
        raise ValidationError(
            f"Option 'type' = '{options['type']}' is not supported since module name is used to find module.",
            details={"option": "type"},
        )
    factory = _factory(name)
    known = {*factory.required_options, *factory.optional_options}
    missing = sorted(set(factory.required_options) - options.keys())
    if missing:
        raise ValidationError(
            f"One or more required options are missing for module {name}: {', '.join(missing)}",
            details={"option": missing[0]},
        )
    unknown = sorted(options.keys() - known)
    if unknown:
        raise ValidationError(
            f"Unsupported options for module {name}: {', '.join(unknown)}. Supported options: "
            f"{', '.join(sorted(known)) or 'none'}",
            details={"option": unknown[0]},
        )
    return factory.create_module(options)


def _factory(name: str) -> ModuleFactory:
    if name == CoreModuleFactory.identifier:
        return CoreModuleFactory()
    offered = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name in offered:
        factory: ModuleFactory = offered[name].load()()
        return factory
    if name == "hive":
        raise UnsupportedOperationError(
            "The module hive calls Hive's functions, which are Java classes, and flinkpy has no JVM. A package can "
            f"offer functions in Python with their names as the entry point 'hive' of the group '{ENTRY_POINT_GROUP}'.",
            details={"module": name},
        )
    raise ValidationError(
        f"Could not find any factory for identifier '{name}' that implements a module. Available factory identifiers "
        f"are: {', '.join(sorted({CoreModuleFactory.identifier, *offered}))}. A module object in Python is loaded by "
        "load_module.",
        details={"module": name},
    )
