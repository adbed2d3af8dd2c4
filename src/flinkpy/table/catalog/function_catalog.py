"""FunctionCatalog: finds user-defined functions by name, in Flink's order.

An unqualified name is looked up as a temporary system function, a function of the used modules (the built-in ones are
those of `core`), a temporary and a permanent function of the current database; a qualified name as a temporary and then
a permanent function of its database.

Source: org.apache.flink.table.catalog.FunctionCatalog.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from flinkpy.common.errors import CatalogError, ValidationError
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_tables import CatalogFunction
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.module.module_manager import ModuleManager
from flinkpy.table.temporal_table_function import TemporalTableFunction
from flinkpy.table.udf import (
    AggregateFunction,
    TableAggregateFunction,
    UserDefinedFunctionWrapper,
    udaf,
    udtaf,
)


class FunctionCatalog:
    """Thread: that of the program. Names of functions are not case-sensitive.

    Args:
        catalog_manager: the catalogs, and the current one.
        modules: the loaded modules.
    """

    def __init__(self, catalog_manager: CatalogManager, modules: ModuleManager | None = None) -> None:
        self._catalogs = catalog_manager
        self.modules = modules or ModuleManager()
        self._system: dict[str, CatalogFunction] = {}
        self._temporary: dict[ObjectIdentifier, CatalogFunction] = {}

    def user_function(self, name: tuple[str, ...]) -> UserDefinedFunctionWrapper | TemporalTableFunction | None:
        """Returns the user-defined function that a call names; None if there is none, so that it is a built-in one.

        Raises: ValidationError if the function cannot be imported, or does not say its result type.
        """
        if len(name) == 1:
            found = self.temporary_system_function(name[0])
            if found is None:
                found = self.modules.get_function(name[0])
            # A built-in function hides those of catalogs.
            if found is None and not self.modules.is_builtin(name[0]):
                found = self.catalog_function(name)
        else:
            found = self.catalog_function(name)
        return None if found is None else _typed(found, ".".join(name))

    # -- lookup ------------------------------------------------------------------------------------------------------

    def full_name(self, name: tuple[str, ...]) -> tuple[str, ...] | None:
        """Returns the full name of a function that a call finds in a catalog; None for other functions."""
        if len(name) == 1:
            is_system = self.temporary_system_function(name[0]) is not None
            if is_system or self.modules.is_builtin(name[0]) or self.modules.get_function(name[0]) is not None:
                return None
        return None if self.catalog_function(name) is None else self._catalogs.qualify(name).parts

    def is_builtin(self, name: str) -> bool:
        """True if a used module makes the built-in function of this name known."""
        return self.modules.is_builtin(name)

    def builtin_names(self) -> list[str]:
        """Returns the names of the functions of the used modules, in order."""
        return sorted(self.modules.list_functions())

    def temporary_system_function(self, name: str) -> Any:
        """Returns the function object, which hides a built-in function of that name; None if there is none."""
        found = self._system.get(name.lower())
        return None if found is None else load_function(found)

    def catalog_function(self, parts: tuple[str, ...]) -> Any:
        """Returns the object of a temporary or permanent function of a catalog; None if there is none."""
        try:
            identifier = _lower(self._catalogs.qualify(parts))
        except ValidationError:
            return None
        found = self._temporary.get(identifier)
        if found is None:
            catalog = self._catalogs.catalog(identifier.catalog_name)
            path = identifier.to_object_path()
            if catalog is None or not catalog.database_exists(path.database_name) or not catalog.function_exists(path):
                return None
            found = catalog.get_function(path)
        return load_function(found)

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        """True if the name stands for a function that lives as long as the session."""
        if len(parts) == 1 and parts[0].lower() in self._system:
            return True
        return _lower(self._catalogs.qualify(parts)) in self._temporary

    def user_functions(self) -> list[str]:
        """Returns the names of all functions that an unqualified name can stand for, without built-in ones."""
        catalog, database = self._catalogs.current_catalog, self._catalogs.current_database
        names = set(self._system)
        names |= {each.object_name for each in self._temporary if each.parts[:2] == (catalog, database)}
        if catalog is not None and database is not None:
            names |= set(self._catalogs.catalog_or_error(catalog).list_functions(database))
        return sorted(names)

    # -- changes -------------------------------------------------------------------------------------------------------

    def create_temporary_system_function(self, name: str, function: CatalogFunction, ignore_if_exists: bool) -> None:
        if name.lower() in self._system:
            if ignore_if_exists:
                return
            raise ValidationError(f"Could not register temporary system function '{name}': it exists already.")
        load_function(function)
        self._system[name.lower()] = function

    def drop_temporary_system_function(self, name: str, ignore_if_not_exists: bool) -> bool:
        if self._system.pop(name.lower(), None) is not None:
            return True
        if ignore_if_not_exists:
            return False
        raise ValidationError(f"Could not drop temporary system function. A function named '{name}' doesn't exist.")

    def create_temporary_function(
        self, parts: tuple[str, ...], function: CatalogFunction, ignore_if_exists: bool
    ) -> None:
        identifier = _lower(self._catalogs.qualify(parts))
        if identifier in self._temporary:
            if ignore_if_exists:
                return
            raise ValidationError(f"Temporary catalog function '{identifier}' already exists.")
        load_function(function)
        self._temporary[identifier] = function

    def drop_temporary_function(self, parts: tuple[str, ...], ignore_if_not_exists: bool) -> bool:
        identifier = _lower(self._catalogs.qualify(parts))
        if self._temporary.pop(identifier, None) is not None:
            return True
        if ignore_if_not_exists:
            return False
        raise ValidationError(f"Temporary catalog function {identifier} doesn't exist")

    def create_function(self, parts: tuple[str, ...], function: CatalogFunction, ignore_if_exists: bool) -> None:
        identifier = self._catalogs.qualify(parts)
        load_function(function)
        catalog = self._catalogs.catalog_or_error(identifier.catalog_name)
        try:
            catalog.create_function(identifier.to_object_path(), function, ignore_if_exists)
        except CatalogError as error:
            raise ValidationError(f"Could not create function '{identifier}': {error.message}") from error

    def alter_function(self, parts: tuple[str, ...], function: CatalogFunction, ignore_if_not_exists: bool) -> None:
        """Replaces a permanent function. Raises: ValidationError if there is none, or a temporary one hides it."""
        identifier = self._catalogs.qualify(parts)
        if _lower(identifier) in self._temporary:
            raise ValidationError(
                f"Could not alter function '{identifier}'. A temporary function with this name exists: drop it first."
            )
        load_function(function)
        catalog = self._catalogs.catalog_or_error(identifier.catalog_name)
        path = identifier.to_object_path()
        if not catalog.function_exists(path):
            if ignore_if_not_exists:
                return
            raise ValidationError(f"Function {identifier} doesn't exist.", details={"function": str(identifier)})
        catalog.alter_function(path, function, ignore_if_not_exists)

    def drop_function(self, parts: tuple[str, ...], ignore_if_not_exists: bool) -> None:
        identifier = self._catalogs.qualify(parts)
        if _lower(identifier) in self._temporary:
            raise ValidationError(
                f"Could not drop function '{identifier}'. A temporary function with this name exists: drop it first."
            )
        catalog = self._catalogs.catalog_or_error(identifier.catalog_name)
        catalog.drop_function(identifier.to_object_path(), ignore_if_not_exists)


def load_function(function: CatalogFunction) -> Any:
    """Returns the function object. Raises: ValidationError if it cannot be imported or is not Python."""
    if function.function is not None:
        return function.function
    if function.language != "PYTHON":
        raise ValidationError(
            f"function class '{function.class_name}' is written in {function.language}: flinkpy has no JVM and calls "
            "functions of LANGUAGE PYTHON only"
        )
    module, _, name = function.class_name.rpartition(".")
    if not module:
        raise ValidationError(f"The fully qualified name is invalid: '{function.class_name}' has no module.")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValidationError(f"The function {function.class_name} cannot be imported: {error}") from error
    return found() if inspect.isclass(found) else found


def _typed(function: Any, name: str) -> UserDefinedFunctionWrapper | TemporalTableFunction:
    """Returns a function with its types."""
    if isinstance(function, (UserDefinedFunctionWrapper, TemporalTableFunction)):
        return function
    wrap = udtaf if isinstance(function, TableAggregateFunction) else udaf
    if isinstance(function, (AggregateFunction, TableAggregateFunction)):
        return wrap(function)  # type: ignore[no-any-return]
    raise ValidationError(
        f"The function {name} has no result type: make it by udf(..., result_type=...), udtf, udaf or udtaf of "
        "flinkpy.table.udf.",
        details={"function": name},
    )


def _lower(identifier: ObjectIdentifier) -> ObjectIdentifier:
    return ObjectIdentifier(identifier.catalog_name, identifier.database_name, identifier.object_name.lower())
