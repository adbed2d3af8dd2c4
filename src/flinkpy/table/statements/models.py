"""CREATE, ALTER, DROP, SHOW and DESCRIBE of models.

Source: org.apache.flink.table.planner.operations.converters.SqlCreateModelConverter,
org.apache.flink.table.operations.{ShowModels, DescribeModel, ShowCreateModel}Operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_model import CatalogModel
from flinkpy.table.catalog.identifiers import quoted
from flinkpy.table.catalog.resolved_schema import Column, ComputedColumn, MetadataColumn, ResolvedSchema
from flinkpy.table.planner.errors import invalid
from flinkpy.table.statements import listings
from flinkpy.table.statements.declarations import TypeBinder, options_of, schema_of
from flinkpy.table.table_result import TableResult


class ModelStatements:
    """Thread: that of the program."""

    def __init__(self, catalogs: CatalogManager, bind_type: TypeBinder) -> None:
        self._catalogs = catalogs
        self._models = catalogs.models
        self._bind_type = bind_type

    def create(self, statement: ast.CreateModel) -> TableResult:
        """Creates a model. Raises: ValidationError if its columns or options are missing, or the name is taken."""
        if statement.query is not None:
            raise UnsupportedOperationError(
                "CREATE MODEL ... AS trains a model, and no provider can do that: create the model from its options."
            )
        options = options_of(statement.options)
        if not options:
            raise invalid(statement, "Model properties must not be empty: name the provider in WITH.")
        if bool(statement.inputs) != bool(statement.outputs) or not statement.inputs:
            missing = "INPUT" if not statement.inputs else "OUTPUT"
            raise invalid(
                statement, f"Both INPUT and OUTPUT columns of a model must be given, and {missing} is missing."
            )
        model = CatalogModel(
            schema_of(statement.inputs, (), None, self._bind_type),
            schema_of(statement.outputs, (), None, self._bind_type),
            options,
            statement.comment or "",
        )
        identifier = self._catalogs.qualify(statement.name.parts)
        self._models.create_model(identifier, model, statement.if_not_exists, is_temporary=statement.temporary)
        return TableResult.ok()

    def drop(self, statement: ast.Drop) -> TableResult:
        identifier = self._catalogs.qualify(statement.name.parts)
        self._models.drop_model(identifier, statement.if_exists, is_temporary=statement.temporary)
        return TableResult.ok()

    def alter(self, statement: ast.Alter) -> TableResult:
        """Changes the options or the name of a permanent model. Raises: ValidationError if there is none."""
        identifier = self._catalogs.qualify(statement.name.parts)
        found = self._models.get_model(identifier)
        if found is None:
            if statement.if_exists:
                return TableResult.ok()
            raise ValidationError(f"Model {identifier} doesn't exist.", details={"model": str(identifier)})
        if found.is_temporary:
            raise ValidationError(f"Model {identifier} is a temporary model. ALTER MODEL is not supported for it.")
        match statement.action:
            case ast.RenameTo(new_name):
                renamed = self._catalogs.qualify(new_name.parts)
                if renamed.parts[:2] != identifier.parts[:2]:
                    raise ValidationError(
                        "The catalog name and database name of the new model name must be those of the old one."
                    )
                self._models.rename_model(identifier, renamed.object_name)
            case ast.SetOptions(options):
                changed = found.model.options | options_of(options)
                self._models.alter_model(identifier, replace(found.model, options=changed))
            case ast.ResetOptions(keys):
                names = {each.key for each in keys}
                if not names:
                    raise ValidationError("ALTER MODEL RESET does not support empty key.")
                kept = {key: value for key, value in found.model.options.items() if key not in names}
                self._models.alter_model(identifier, replace(found.model, options=kept))
            case action:
                raise UnsupportedOperationError(f"ALTER MODEL cannot {type(action).__name__}")
        return TableResult.ok()

    def show(self, statement: ast.Show) -> TableResult:
        """Returns the names of the models of a database."""
        catalog, database = listings.given_or_current(statement.container, self._catalogs)
        names = self._models.list_models(catalog, database)
        return listings.name_list("model name", names, listings.matcher(statement.like))

    def describe(self, statement: ast.Describe) -> TableResult:
        """Returns the input and output columns of a model."""
        found = self._models.get_model_or_error(statement.name.parts)
        rows = [*_described(found.inputs, True), *_described(found.outputs, False)]
        titles = ["name", "type", "null", "is input"]
        if any(row[-1] for row in rows):
            titles.append("comment")
        return listings.listed(titles, [row[: len(titles)] for row in rows])

    def show_create(self, statement: ast.ShowCreate) -> TableResult:
        """Returns the statement that creates the model again. Values of secret options are hidden."""
        found = self._models.get_model_or_error(statement.name.parts)
        lines = [f"CREATE {'TEMPORARY ' if found.is_temporary else ''}MODEL {found.identifier}"]
        lines.append(f"INPUT ({_columns(found.inputs.columns)})")
        lines.append(f"OUTPUT ({_columns(found.outputs.columns)})")
        if found.model.comment:
            lines.append(f"COMMENT {listings.quoted_text(found.model.comment)}")
        lines.append(listings.with_options(found.model.options))
        return TableResult.of_text("\n".join(lines) + "\n")


def _described(schema: ResolvedSchema, is_input: bool) -> list[tuple[Any, ...]]:
    return [
        (each.name, each.type.as_sql(), str(each.type.nullable).upper(), str(is_input).upper(), each.comment)
        for each in schema.columns
    ]


def _columns(columns: Sequence[Column]) -> str:
    parts = []
    for each in columns:
        text = f"{quoted(each.name)} {each.type}"
        if isinstance(each, ComputedColumn):
            text = f"{quoted(each.name)} AS {each.sql}"
        elif isinstance(each, MetadataColumn):
            text += " METADATA" + (
                "" if each.metadata_key is None else f" FROM {listings.quoted_text(each.metadata_key)}"
            )
        parts.append(text + (f" COMMENT {listings.quoted_text(each.comment)}" if each.comment else ""))
    return ", ".join(parts)
