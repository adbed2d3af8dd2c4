"""CatalogManager: the catalogs of a session, the current catalog and database, and temporary tables.

Source: org.apache.flink.table.catalog.CatalogManager.
"""

from __future__ import annotations

import difflib
from typing import Protocol

from flinkpy.common.errors import CatalogError, ValidationError
from flinkpy.table.catalog.catalog import Catalog, GenericInMemoryCatalog
from flinkpy.table.catalog.catalog_factories import create_catalog
from flinkpy.table.catalog.catalog_store import CatalogStore, GenericInMemoryCatalogStore
from flinkpy.table.catalog.catalog_tables import (
    CatalogBaseTable,
    CatalogTable,
    CatalogView,
    ContextResolvedTable,
    QueryView,
)
from flinkpy.table.catalog.identifiers import ObjectIdentifier, ObjectPath
from flinkpy.table.catalog.materialized_table import CatalogMaterializedTable
from flinkpy.table.catalog.model_catalog import ModelCatalog
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.schema import Schema

BUILTIN_CATALOG = "default_catalog"
BUILTIN_DATABASE = "default_database"


class SchemaResolver(Protocol):
    """Resolves the types and expressions of a declared schema. The planner implements it."""

    def resolve_schema(self, schema: Schema, description: str) -> ResolvedSchema:
        """Raises: ValidationError, which names the column and begins with `description`."""
        ...


class CatalogManager:
    """Thread: that of the program."""

    def __init__(
        self,
        catalog_name: str = BUILTIN_CATALOG,
        database_name: str = BUILTIN_DATABASE,
        store: CatalogStore | None = None,
    ) -> None:
        self._store = store or GenericInMemoryCatalogStore()
        self._catalogs: dict[str, Catalog] = {catalog_name: GenericInMemoryCatalog(catalog_name, database_name)}
        self._current_catalog: str | None = catalog_name
        self._current_database: str | None = database_name
        self._temporary: dict[ObjectIdentifier, CatalogBaseTable] = {}
        #: The comments of CREATE CATALOG and ALTER CATALOG.
        self._comments: dict[str, str] = {}
        self.schema_resolver: SchemaResolver | None = None
        self.models = ModelCatalog(self)

    # -- catalogs and databases ------------------------------------------------------------------------------------

    @property
    def catalog_names(self) -> list[str]:
        return list(dict.fromkeys((*self._catalogs, *self._store.list_catalogs())))

    @property
    def current_catalog(self) -> str | None:
        """The current catalog; None after it was unset."""
        return self._current_catalog

    @property
    def current_database(self) -> str | None:
        return self._current_database

    def register_catalog(self, name: str, catalog: Catalog, ignore_if_exists: bool = False) -> None:
        """Registers and opens a catalog. Raises: CatalogError if the name is taken."""
        if self._is_new(name, ignore_if_exists):
            self._open(name, catalog)

    def create_catalog(self, name: str, options: dict[str, str], ignore_if_exists: bool, comment: str = "") -> None:
        """Makes a catalog from the options of CREATE CATALOG, and keeps them in the catalog store.

        Raises: ValidationError if the options are wrong; CatalogError if the name is taken.
        """
        if not self._is_new(name, ignore_if_exists):
            return
        catalog = create_catalog(name, options)
        self._store.store_catalog(name, options)
        self._comments[name] = comment
        self._open(name, catalog)

    def catalog_options(self, name: str) -> dict[str, str]:
        """Returns the options of CREATE CATALOG; none for a catalog that a program registered.

        Raises: CatalogError if there is no such catalog.
        """
        if name not in self.catalog_names:
            raise self._no_catalog(name)
        return dict(self._store.get_catalog(name) or {})

    def catalog_comment(self, name: str) -> str:
        return self._comments.get(name, "")

    def alter_catalog(self, name: str, options: dict[str, str] | None = None, comment: str | None = None) -> None:
        """Gives a catalog other options, with which it is made again, or another comment.

        Raises: CatalogError if CREATE CATALOG did not make it; ValidationError if the options are wrong.
        """
        if self._store.get_catalog(name) is None:
            raise CatalogError(f"Catalog {name} does not exist in the catalog store.")
        if options is not None:
            catalog = create_catalog(name, options)
            self._store.remove_catalog(name)
            self._store.store_catalog(name, options)
            before = self._catalogs.pop(name, None)
            if before is not None:
                before.close()
            self._open(name, catalog)
        if comment is not None:
            self._comments[name] = comment

    def _is_new(self, name: str, ignore_if_exists: bool) -> bool:
        if not name:
            raise ValidationError("Catalog name cannot be null or empty.")
        if name in self.catalog_names and not ignore_if_exists:
            raise CatalogError(f"Catalog {name} already exists.")
        return name not in self.catalog_names

    def _open(self, name: str, catalog: Catalog) -> None:
        catalog.open()
        self._catalogs[name] = catalog

    def unregister_catalog(self, name: str, ignore_if_not_exists: bool = False) -> None:
        if name not in self.catalog_names:
            if ignore_if_not_exists:
                return
            raise self._no_catalog(name)
        if name == self._current_catalog:
            raise CatalogError("Cannot drop a catalog which is currently in use.")
        opened = self._catalogs.pop(name, None)
        if opened is not None:
            opened.close()
        self._store.remove_catalog(name)
        self._comments.pop(name, None)

    def catalog(self, name: str) -> Catalog | None:
        """Returns a catalog; None if it is unknown. One that is only in the catalog store is made and opened."""
        found = self._catalogs.get(name)
        if found is None and name in self._store.list_catalogs():
            options = self._store.get_catalog(name)
            assert options is not None
            found = create_catalog(name, options)
            self._open(name, found)
        return found

    def catalog_or_error(self, name: str) -> Catalog:
        catalog = self.catalog(name)
        if catalog is None:
            raise self._no_catalog(name)
        return catalog

    def use_catalog(self, name: str | None) -> None:
        """Makes a catalog and its default database current. None unsets both."""
        if name is None:
            self._current_catalog = self._current_database = None
            return
        self._current_database = self.catalog_or_error(name).get_default_database()
        self._current_catalog = name

    def use_database(self, name: str | None) -> None:
        if name is None:
            self._current_database = None
            return
        catalog = self._current()
        if not catalog.database_exists(name):
            raise CatalogError(f"A database with name [{name}] does not exist in the catalog: [{catalog.name}].")
        self._current_database = name

    def _current(self) -> Catalog:
        if self._current_catalog is None:
            raise ValidationError(
                "A current catalog has not been set. Please use a fully qualified identifier (such as "
                "'my_catalog.my_database.my_table') or set a current catalog using 'USE CATALOG my_catalog'."
            )
        return self._catalogs[self._current_catalog]

    def _no_catalog(self, name: str) -> CatalogError:
        return CatalogError(f"A catalog with name [{name}] does not exist.{_hint(name, self.catalog_names)}")

    # -- names -----------------------------------------------------------------------------------------------------

    def qualify(self, parts: tuple[str, ...]) -> ObjectIdentifier:
        """Returns the full name for one, two or three parts. Raises: ValidationError without a current database."""
        if not 1 <= len(parts) <= 3:
            raise ValidationError(f"Invalid identifier {'.'.join(parts)}: a name has one to three parts.")
        if len(parts) == 3:
            return ObjectIdentifier(*parts)
        catalog = self._current().name
        if len(parts) == 2:
            return ObjectIdentifier(catalog, *parts)
        if self._current_database is None:
            raise ValidationError(
                "A current database has not been set. Please use a fully qualified identifier (such as "
                "'my_database.my_table' or 'my_catalog.my_database.my_table') or set a current database using "
                "'USE my_database'."
            )
        return ObjectIdentifier(catalog, self._current_database, parts[0])

    # -- tables and views -------------------------------------------------------------------------------------------

    def get_table(self, identifier: ObjectIdentifier) -> ContextResolvedTable | None:
        """Returns a table or view with its resolved schema; a temporary one hides a permanent one. None if unknown."""
        temporary = self._temporary.get(identifier)
        if temporary is not None:
            return ContextResolvedTable(identifier, temporary, self._resolve(temporary, identifier), is_temporary=True)
        catalog = self.catalog(identifier.catalog_name)
        path = identifier.to_object_path()
        if catalog is None or not catalog.table_exists(path):
            return None
        table = catalog.get_table(path)
        return ContextResolvedTable(identifier, table, self._resolve(table, identifier))

    def get_table_or_error(self, parts: tuple[str, ...]) -> ContextResolvedTable:
        """Raises: ValidationError, which suggests a similar name."""
        identifier = self.qualify(parts)
        table = self.get_table(identifier)
        if table is None:
            raise ValidationError(
                f"Object '{parts[-1]}' not found{self.hint(parts)}", details={"object": identifier.as_summary_string()}
            )
        return table

    def row_count(self, identifier: ObjectIdentifier) -> int:
        """Returns the number of rows that ANALYZE TABLE has counted in a table or its partitions; -1 if unknown."""
        catalog, path = self.catalog(identifier.catalog_name), identifier.to_object_path()
        if catalog is None or identifier in self._temporary or not catalog.table_exists(path):
            return -1
        table = catalog.get_table(path)
        if not isinstance(table, CatalogTable) or not table.partition_keys:
            return catalog.get_table_statistics(path).get_row_count()
        known = catalog.bulk_get_partition_statistics(path, catalog.list_partitions(path))
        counts = [each.get_row_count() for each in known]
        return sum(counts) if counts and min(counts) >= 0 else -1

    def hint(self, parts: tuple[str, ...]) -> str:
        """Returns ` (did you mean ...?)` for an unknown name, or nothing."""
        try:
            identifier = self.qualify(parts)
            return _hint(parts[-1], self.list_tables(identifier.catalog_name, identifier.database_name))
        except (CatalogError, ValidationError):
            return ""

    def _resolve(self, table: CatalogBaseTable, identifier: ObjectIdentifier) -> ResolvedSchema:
        if isinstance(table, QueryView):
            return table.resolved_schema
        assert self.schema_resolver is not None
        return self.schema_resolver.resolve_schema(table.schema, f"table {identifier.as_summary_string()}")

    def resolve_schema(self, schema: Schema, description: str) -> ResolvedSchema:
        assert self.schema_resolver is not None
        return self.schema_resolver.resolve_schema(schema, description)

    def create_table(
        self, identifier: ObjectIdentifier, table: CatalogTable | CatalogView, ignore_if_exists: bool
    ) -> bool:
        """Creates a table or view after checking its schema. Returns False if it was there already."""
        catalog = self.catalog_or_error(identifier.catalog_name)
        path = identifier.to_object_path()
        if catalog.table_exists(path) and ignore_if_exists:
            return False
        self._resolve(table, identifier)
        try:
            catalog.create_table(path, table, ignore_if_exists)
        except CatalogError as error:
            raise ValidationError(f"Could not execute CreateTable in path {identifier}: {error.message}") from error
        return True

    def create_temporary_table(
        self, identifier: ObjectIdentifier, table: CatalogBaseTable, ignore_if_exists: bool, replace: bool = False
    ) -> bool:
        if identifier in self._temporary and not replace:
            if ignore_if_exists:
                return False
            raise ValidationError(f"Temporary table '{identifier}' already exists")
        self._resolve(table, identifier)
        self._temporary[identifier] = table
        return True

    def drop_table(self, identifier: ObjectIdentifier, ignore_if_not_exists: bool, *, is_view: bool = False) -> bool:
        """Drops a permanent table, or view. Returns False if there was none."""
        kind = "view" if is_view else "table"
        if identifier in self._temporary:
            raise ValidationError(
                f"Temporary {kind} with identifier '{identifier}' exists. Drop it first before removing the permanent "
                f"{kind}."
            )
        catalog = self._catalogs.get(identifier.catalog_name)
        path = identifier.to_object_path()
        if (
            catalog is None
            or not catalog.table_exists(path)
            or is_view != isinstance(catalog.get_table(path), CatalogView)
        ):
            if ignore_if_not_exists:
                return False
            raise ValidationError(f"{kind.capitalize()} with identifier '{identifier}' does not exist.")
        catalog.drop_table(path, ignore_if_not_exists)
        return True

    def drop_temporary_table(
        self, identifier: ObjectIdentifier, ignore_if_not_exists: bool, *, is_view: bool = False
    ) -> bool:
        kind = "view" if is_view else "table"
        table = self._temporary.get(identifier)
        if table is None or is_view == isinstance(table, CatalogTable):
            if ignore_if_not_exists:
                return False
            raise ValidationError(f"Temporary {kind} with identifier '{identifier}' does not exist.")
        del self._temporary[identifier]
        return True

    def alter_table(self, identifier: ObjectIdentifier, table: CatalogTable | CatalogView) -> None:
        if identifier in self._temporary:
            self._temporary[identifier] = table
            return
        self._resolve(table, identifier)
        self.catalog_or_error(identifier.catalog_name).alter_table(identifier.to_object_path(), table, False)

    def list_tables(self, catalog_name: str | None = None, database_name: str | None = None) -> list[str]:
        """Returns the names of tables and views of a database in order, temporary ones included."""
        catalog, database = self.place(catalog_name, database_name)
        temporary = [each.object_name for each in self._temporary if each.parts[:2] == (catalog, database)]
        permanent = self.catalog_or_error(catalog).list_tables(database)
        return sorted({*temporary, *permanent})

    def list_views(self, catalog_name: str | None = None, database_name: str | None = None) -> list[str]:
        catalog, database = self.place(catalog_name, database_name)
        temporary = {
            each.object_name: not isinstance(table, CatalogTable)
            for each, table in self._temporary.items()
            if each.parts[:2] == (catalog, database)
        }
        permanent = set(self.catalog_or_error(catalog).list_views(database)) - temporary.keys()
        return sorted({name for name, is_view in temporary.items() if is_view} | permanent)

    def list_materialized_tables(self, catalog_name: str, database_name: str) -> list[str]:
        """Returns the names of the materialized tables of a database in order."""
        catalog = self.catalog_or_error(catalog_name)
        return sorted(
            name
            for name in catalog.list_tables(database_name)
            if isinstance(catalog.get_table(ObjectPath(database_name, name)), CatalogMaterializedTable)
        )

    def list_temporary_tables(self) -> list[str]:
        return self._temporary_names(is_view=False)

    def list_temporary_views(self) -> list[str]:
        return self._temporary_names(is_view=True)

    def _temporary_names(self, is_view: bool) -> list[str]:
        place = (self._current_catalog, self._current_database)
        return sorted(
            each.object_name
            for each, table in self._temporary.items()
            if each.parts[:2] == place and is_view != isinstance(table, CatalogTable)
        )

    def place(self, catalog_name: str | None, database_name: str | None) -> tuple[str, str]:
        """Returns a catalog and a database: the given ones, or the current ones."""
        catalog = catalog_name or self._current().name
        database = database_name or self._current_database
        if database is None:
            raise ValidationError("A current database has not been set.")
        return catalog, database


def _hint(name: str, known: object) -> str:
    close = difflib.get_close_matches(name, list(known), 1)  # type: ignore[call-overload]
    return f" (did you mean '{close[0]}'?)" if close else ""
