"""LOAD MODULE, UNLOAD MODULE, USE MODULES and SHOW [FULL] MODULES.

Source: org.apache.flink.table.operations.{LoadModule, UnloadModule, UseModules, ShowModules}Operation.
"""

from __future__ import annotations

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types.logical_types import BooleanType, VarCharType
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.module.module_factories import create_module
from flinkpy.table.module.module_manager import ModuleManager
from flinkpy.table.statements.declarations import names_of, options_of
from flinkpy.table.table_result import TableResult


def load_module(statement: ast.LoadModule, modules: ModuleManager) -> TableResult:
    """Loads the module that a package offers. Raises: ValidationError, UnsupportedOperationError."""
    name = statement.name.last
    try:
        modules.load_module(name, create_module(name, options_of(statement.options)))
    except ValidationError as error:
        raise ValidationError(
            f"Could not execute LOAD MODULE `{name}`. {error.message}", details=error.details
        ) from error
    except UnsupportedOperationError as error:
        raise UnsupportedOperationError(
            f"Could not execute LOAD MODULE `{name}`. {error.message}", details=error.details
        ) from error
    return TableResult.ok()


def unload_module(statement: ast.UnloadModule, modules: ModuleManager) -> TableResult:
    name = statement.name.last
    try:
        modules.unload_module(name)
    except ValidationError as error:
        raise ValidationError(
            f"Could not execute UNLOAD MODULE {name}. {error.message}", details=error.details
        ) from error
    return TableResult.ok()


def use_modules(statement: ast.UseModules, modules: ModuleManager) -> TableResult:
    names = names_of(statement.names)
    try:
        modules.use_modules(names)
    except ValidationError as error:
        shown = ", ".join(f"`{each}`" for each in names)
        raise ValidationError(
            f"Could not execute USE MODULES: [{shown}]. {error.message}", details=error.details
        ) from error
    return TableResult.ok()


def show_modules(modules: ModuleManager) -> TableResult:
    """Returns the used modules in the order of resolution."""
    rows = [(name,) for name in modules.list_modules()]
    return TableResult.of_rows(ResolvedSchema.physical(("module name", VarCharType())), rows)


def show_full_modules(modules: ModuleManager) -> TableResult:
    """Returns all loaded modules, and if each is used."""
    schema = ResolvedSchema.physical(("module name", VarCharType()), ("used", BooleanType()))
    return TableResult.of_rows(schema, modules.list_full_modules())
