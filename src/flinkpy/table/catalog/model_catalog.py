"""ModelCatalog: the models of a session: temporary ones, which hide those of catalogs, and those of catalogs.

Source: org.apache.flink.table.catalog.CatalogManager, the parts for models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.common.errors import CatalogError, ValidationError
from flinkpy.table.catalog.catalog_model import CatalogModel, ContextResolvedModel
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.planner.errors import did_you_mean

if TYPE_CHECKING:
    from flinkpy.table.catalog.catalog_manager import CatalogManager


class ModelCatalog:
    """Thread: that of the program."""

    def __init__(self, catalogs: CatalogManager) -> None:
        self._catalogs = catalogs
        self._temporary: dict[ObjectIdentifier, CatalogModel] = {}

    def get_model(self, identifier: ObjectIdentifier) -> ContextResolvedModel | None:
        """Returns a model; None if there is none."""
        model = self._temporary.get(identifier)
        if model is not None:
            return self._resolved(identifier, model, is_temporary=True)
        catalog = self._catalogs.catalog(identifier.catalog_name)
        path = identifier.to_object_path()
        if catalog is None or not catalog.model_exists(path):
            return None
        return self._resolved(identifier, catalog.get_model(path))

    def get_model_or_error(self, parts: tuple[str, ...]) -> ContextResolvedModel:
        """Raises: ValidationError, which suggests a similar name."""
        identifier = self._catalogs.qualify(parts)
        model = self.get_model(identifier)
        if model is None:
            known = self.list_models(identifier.catalog_name, identifier.database_name)
            raise ValidationError(
                f"Model with the identifier '{identifier.as_summary_string()}' doesn't exist"
                f"{did_you_mean(parts[-1], known)}.",
                details={"model": identifier.as_summary_string()},
            )
        return model

    def _resolved(
        self, identifier: ObjectIdentifier, model: CatalogModel, is_temporary: bool = False
    ) -> ContextResolvedModel:
        name = identifier.as_summary_string()
        inputs = self._catalogs.resolve_schema(model.input_schema, f"the input of model {name}")
        outputs = self._catalogs.resolve_schema(model.output_schema, f"the output of model {name}")
        return ContextResolvedModel(identifier, model, inputs, outputs, is_temporary)

    def list_models(self, catalog_name: str | None = None, database_name: str | None = None) -> list[str]:
        """Returns the names of the models of a database in order, temporary ones included."""
        catalog, database = self._catalogs.place(catalog_name, database_name)
        temporary = {each.object_name for each in self._temporary if each.parts[:2] == (catalog, database)}
        return sorted(temporary.union(self._catalogs.catalog_or_error(catalog).list_models(database)))

    def list_temporary_models(self) -> list[str]:
        place = (self._catalogs.current_catalog, self._catalogs.current_database)
        return sorted(each.object_name for each in self._temporary if each.parts[:2] == place)

    def create_model(
        self, identifier: ObjectIdentifier, model: CatalogModel, ignore_if_exists: bool, *, is_temporary: bool = False
    ) -> None:
        """Raises: ValidationError if the name is taken, or a type is wrong."""
        self._resolved(identifier, model)
        if is_temporary:
            if identifier not in self._temporary:
                self._temporary[identifier] = model
            elif not ignore_if_exists:
                raise ValidationError(f"Temporary model '{identifier}' already exists")
            return
        catalog = self._catalogs.catalog_or_error(identifier.catalog_name)
        try:
            catalog.create_model(identifier.to_object_path(), model, ignore_if_exists)
        except CatalogError as error:
            raise ValidationError(f"Could not execute CreateModel in path {identifier}: {error.message}") from error

    def alter_model(self, identifier: ObjectIdentifier, model: CatalogModel) -> None:
        """Replaces a permanent model. Raises: CatalogError if there is none."""
        catalog = self._catalogs.catalog_or_error(identifier.catalog_name)
        catalog.alter_model(identifier.to_object_path(), model, False)

    def rename_model(self, identifier: ObjectIdentifier, new_name: str) -> None:
        catalog = self._catalogs.catalog_or_error(identifier.catalog_name)
        catalog.rename_model(identifier.to_object_path(), new_name, False)

    def drop_model(
        self, identifier: ObjectIdentifier, ignore_if_not_exists: bool, *, is_temporary: bool = False
    ) -> bool:
        """Drops a model. Returns False if there was none, which is an error unless it may be ignored."""
        kind = "Temporary model" if is_temporary else "Model"
        if is_temporary:
            is_there = self._temporary.pop(identifier, None) is not None
        else:
            if identifier in self._temporary:
                raise ValidationError(
                    f"Temporary model with identifier '{identifier}' exists. Drop it first before removing the "
                    "permanent model."
                )
            catalog = self._catalogs.catalog(identifier.catalog_name)
            path = identifier.to_object_path()
            is_there = catalog is not None and catalog.model_exists(path)
            if catalog is not None and is_there:
                catalog.drop_model(path, ignore_if_not_exists)
        if not is_there and not ignore_if_not_exists:
            raise ValidationError(f"{kind} with identifier '{identifier}' does not exist.")
        return is_there
