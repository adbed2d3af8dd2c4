"""Catalog: stores databases, tables, views and functions. GenericInMemoryCatalog keeps them in this process.

Source: org.apache.flink.table.catalog.{Catalog, GenericInMemoryCatalog}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkpy.common.errors import CatalogError
from flinkpy.table.catalog.catalog_model import CatalogModel
from flinkpy.table.catalog.catalog_statistics import (
    CatalogColumnStatistics,
    CatalogTableStatistics,
    PartitionSpec,
    Statistics,
    StatisticsStore,
)
from flinkpy.table.catalog.catalog_tables import CatalogDatabase, CatalogFunction, CatalogTable, CatalogView
from flinkpy.table.catalog.identifiers import ObjectPath
from flinkpy.table.catalog.procedure import Procedure


class Catalog(ABC):
    """The base class of catalogs. A program may write its own.

    Names of databases, tables and columns are case-sensitive; those of functions are not.
    """

    def __init__(self, name: str, default_database: str = "default") -> None:
        self.name = name
        self._default_database = default_database

    def open(self) -> None:
        """Called once, when the catalog is registered."""
        return

    def close(self) -> None:
        return

    def get_default_database(self) -> str:
        return self._default_database

    def get_factory(self) -> Any:
        """Returns a function `(options) -> TableFactory` for tables without the option `connector`; None for none."""
        return None

    # -- databases -------------------------------------------------------------------------------------------------

    @abstractmethod
    def list_databases(self) -> list[str]: ...

    @abstractmethod
    def get_database(self, database_name: str) -> CatalogDatabase:
        """Raises: CatalogError if the database does not exist."""

    def database_exists(self, database_name: str) -> bool:
        return database_name in self.list_databases()

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        raise self._read_only("create a database")

    def drop_database(self, name: str, ignore_if_not_exists: bool, cascade: bool = False) -> None:
        raise self._read_only("drop a database")

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool) -> None:
        raise self._read_only("alter a database")

    # -- tables and views -------------------------------------------------------------------------------------------

    @abstractmethod
    def list_tables(self, database_name: str) -> list[str]:
        """Returns the names of tables and views."""

    @abstractmethod
    def get_table(self, table_path: ObjectPath) -> CatalogTable | CatalogView:
        """Raises: CatalogError if there is no such table."""

    def list_views(self, database_name: str) -> list[str]:
        names = self.list_tables(database_name)
        return [name for name in names if isinstance(self.get_table(ObjectPath(database_name, name)), CatalogView)]

    def table_exists(self, table_path: ObjectPath) -> bool:
        return self.database_exists(table_path.database_name) and table_path.object_name in self.list_tables(
            table_path.database_name
        )

    def create_table(self, table_path: ObjectPath, table: CatalogTable | CatalogView, ignore_if_exists: bool) -> None:
        raise self._read_only("create a table")

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        raise self._read_only("drop a table")

    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool) -> None:
        raise self._read_only("rename a table")

    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogTable | CatalogView, ignore_if_not_exists: bool
    ) -> None:
        raise self._read_only("alter a table")

    # -- partitions ---------------------------------------------------------------------------------------------------

    def list_partitions(self, table_path: ObjectPath) -> list[PartitionSpec]:
        raise self._read_only("list partitions")

    def create_partition(
        self, table_path: ObjectPath, partition: PartitionSpec, properties: dict[str, str], ignore_if_exists: bool
    ) -> None:
        raise self._read_only("create a partition")

    def drop_partition(self, table_path: ObjectPath, partition: PartitionSpec, ignore_if_not_exists: bool) -> None:
        raise self._read_only("drop a partition")

    # -- statistics ---------------------------------------------------------------------------------------------------

    def get_table_statistics(self, table_path: ObjectPath) -> CatalogTableStatistics:
        """Returns the size of a table; numbers of -1 if it is not known."""
        return CatalogTableStatistics()

    def get_table_column_statistics(self, table_path: ObjectPath) -> CatalogColumnStatistics:
        return CatalogColumnStatistics()

    def get_partition_statistics(self, table_path: ObjectPath, partition: PartitionSpec) -> CatalogTableStatistics:
        return CatalogTableStatistics()

    def get_partition_column_statistics(
        self, table_path: ObjectPath, partition: PartitionSpec
    ) -> CatalogColumnStatistics:
        return CatalogColumnStatistics()

    def bulk_get_partition_statistics(
        self, table_path: ObjectPath, partitions: list[PartitionSpec]
    ) -> list[CatalogTableStatistics]:
        return [self.get_partition_statistics(table_path, each) for each in partitions]

    def bulk_get_partition_column_statistics(
        self, table_path: ObjectPath, partitions: list[PartitionSpec]
    ) -> list[CatalogColumnStatistics]:
        return [self.get_partition_column_statistics(table_path, each) for each in partitions]

    def alter_table_statistics(
        self, table_path: ObjectPath, table_statistics: CatalogTableStatistics, ignore_if_not_exists: bool
    ) -> None:
        raise self._read_only("alter statistics")

    def alter_table_column_statistics(
        self, table_path: ObjectPath, column_statistics: CatalogColumnStatistics, ignore_if_not_exists: bool
    ) -> None:
        raise self._read_only("alter statistics")

    def alter_partition_statistics(
        self,
        table_path: ObjectPath,
        partition: PartitionSpec,
        partition_statistics: CatalogTableStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        raise self._read_only("alter statistics")

    def alter_partition_column_statistics(
        self,
        table_path: ObjectPath,
        partition: PartitionSpec,
        column_statistics: CatalogColumnStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        raise self._read_only("alter statistics")

    # -- functions ----------------------------------------------------------------------------------------------------

    def list_functions(self, database_name: str) -> list[str]:
        return []

    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        raise CatalogError(f"Function {function_path} does not exist in catalog {self.name}.")

    def function_exists(self, function_path: ObjectPath) -> bool:
        return function_path.object_name.lower() in self.list_functions(function_path.database_name)

    def create_function(self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool) -> None:
        raise self._read_only("create a function")

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        raise self._read_only("alter a function")

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        raise self._read_only("drop a function")

    # -- models -------------------------------------------------------------------------------------------------------

    def list_models(self, database_name: str) -> list[str]:
        return []

    def get_model(self, model_path: ObjectPath) -> CatalogModel:
        raise CatalogError(f"Model '{model_path}' does not exist in catalog {self.name}.")

    def model_exists(self, model_path: ObjectPath) -> bool:
        return self.database_exists(model_path.database_name) and model_path.object_name in self.list_models(
            model_path.database_name
        )

    def create_model(self, model_path: ObjectPath, model: CatalogModel, ignore_if_exists: bool) -> None:
        raise self._read_only("create a model")

    def alter_model(self, model_path: ObjectPath, new_model: CatalogModel, ignore_if_not_exists: bool) -> None:
        raise self._read_only("alter a model")

    def rename_model(self, model_path: ObjectPath, new_model_name: str, ignore_if_not_exists: bool) -> None:
        raise self._read_only("rename a model")

    def drop_model(self, model_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        raise self._read_only("drop a model")

    # -- procedures ---------------------------------------------------------------------------------------------------

    def list_procedures(self, database_name: str) -> list[str]:
        """Returns the names of the procedures of a database, which CALL runs."""
        return []

    def get_procedure(self, procedure_path: ObjectPath) -> Procedure:
        """Raises: CatalogError if there is no such procedure."""
        raise CatalogError(f"Procedure {procedure_path} does not exist in catalog {self.name}.")

    def _read_only(self, action: str) -> CatalogError:
        return CatalogError(f"Catalog {self.name} ({type(self).__name__}) cannot {action}.")


class GenericInMemoryCatalog(Catalog):
    """A catalog that forgets everything at the end of the session."""

    def __init__(self, name: str, default_database: str = "default") -> None:
        super().__init__(name, default_database)
        self._databases: dict[str, CatalogDatabase] = {default_database: CatalogDatabase()}
        self._tables: dict[ObjectPath, CatalogTable | CatalogView] = {}
        self._functions: dict[ObjectPath, CatalogFunction] = {}
        self._partitions: dict[ObjectPath, dict[PartitionSpec, dict[str, str]]] = {}
        self._models: dict[ObjectPath, CatalogModel] = {}
        self._statistics: dict[ObjectPath, StatisticsStore] = {}

    # -- databases -------------------------------------------------------------------------------------------------

    def list_databases(self) -> list[str]:
        return list(self._databases)

    def get_database(self, database_name: str) -> CatalogDatabase:
        self._check_database(database_name)
        return self._databases[database_name]

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        if name not in self._databases:
            self._databases[name] = database
        elif not ignore_if_exists:
            raise CatalogError(f"Database {name} already exists in Catalog {self.name}.")

    def drop_database(self, name: str, ignore_if_not_exists: bool, cascade: bool = False) -> None:
        if name not in self._databases:
            if ignore_if_not_exists:
                return
            raise self._no_database(name)
        contents = [path for path in (*self._tables, *self._functions, *self._models) if path.database_name == name]
        if contents and not cascade:
            raise CatalogError(f"Database {name} in catalog {self.name} is not empty.")
        for path in contents:
            self._tables.pop(path, None)
            self._partitions.pop(path, None)
            self._statistics.pop(path, None)
            self._functions.pop(path, None)
            self._models.pop(path, None)
        del self._databases[name]

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool) -> None:
        if name in self._databases:
            self._databases[name] = new_database
        elif not ignore_if_not_exists:
            raise self._no_database(name)

    # -- tables and views -------------------------------------------------------------------------------------------

    def list_tables(self, database_name: str) -> list[str]:
        self._check_database(database_name)
        return [path.object_name for path in self._tables if path.database_name == database_name]

    def get_table(self, table_path: ObjectPath) -> CatalogTable | CatalogView:
        table = self._tables.get(table_path)
        if table is None:
            raise self._no_table(table_path)
        return table

    def table_exists(self, table_path: ObjectPath) -> bool:
        return table_path in self._tables

    def create_table(self, table_path: ObjectPath, table: CatalogTable | CatalogView, ignore_if_exists: bool) -> None:
        self._check_database(table_path.database_name)
        if table_path not in self._tables:
            self._tables[table_path] = table
        elif not ignore_if_exists:
            raise self._exists(table_path)

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        if table_path in self._tables:
            del self._tables[table_path]
            self._partitions.pop(table_path, None)
            self._statistics.pop(table_path, None)
        elif not ignore_if_not_exists:
            raise self._no_table(table_path)

    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool) -> None:
        new_path = ObjectPath(table_path.database_name, new_table_name)
        if table_path not in self._tables:
            if ignore_if_not_exists:
                return
            raise self._no_table(table_path)
        if new_path in self._tables:
            raise self._exists(new_path)
        self._tables[new_path] = self._tables.pop(table_path)
        if table_path in self._partitions:
            self._partitions[new_path] = self._partitions.pop(table_path)
        if table_path in self._statistics:
            self._statistics[new_path] = self._statistics.pop(table_path)

    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogTable | CatalogView, ignore_if_not_exists: bool
    ) -> None:
        known = self._tables.get(table_path)
        if known is None:
            if ignore_if_not_exists:
                return
            raise self._no_table(table_path)
        if type(known) is not type(new_table):
            raise CatalogError(
                f"Table types don't match. Existing table is '{type(known).__name__}' and new table is "
                f"'{type(new_table).__name__}'."
            )
        self._tables[table_path] = new_table

    # -- partitions ---------------------------------------------------------------------------------------------------

    def list_partitions(self, table_path: ObjectPath) -> list[PartitionSpec]:
        self._check_partitioned(table_path)
        return list(self._partitions.get(table_path, ()))

    def create_partition(
        self, table_path: ObjectPath, partition: PartitionSpec, properties: dict[str, str], ignore_if_exists: bool
    ) -> None:
        keys = self._check_partitioned(table_path)
        if sorted(name for name, _ in partition) != sorted(keys):
            raise CatalogError(
                f"Partition {dict(partition)} does not match the partition keys {list(keys)} of {table_path}."
            )
        known = self._partitions.setdefault(table_path, {})
        if partition not in known:
            known[partition] = properties
        elif not ignore_if_exists:
            raise CatalogError(
                f"Partition {dict(partition)} of table {table_path} in catalog {self.name} already exists."
            )

    def drop_partition(self, table_path: ObjectPath, partition: PartitionSpec, ignore_if_not_exists: bool) -> None:
        self._check_partitioned(table_path)
        if table_path in self._statistics:
            self._statistics[table_path].forget(partition)
        if self._partitions.get(table_path, {}).pop(partition, None) is None and not ignore_if_not_exists:
            raise CatalogError(
                f"Partition {dict(partition)} of table {table_path} in catalog {self.name} does not exist."
            )

    def _check_partitioned(self, table_path: ObjectPath) -> tuple[str, ...]:
        table = self.get_table(table_path)
        if isinstance(table, CatalogView) or not table.partition_keys:
            raise CatalogError(f"Table {table_path} in catalog {self.name} is not partitioned.")
        return table.partition_keys

    # -- statistics ---------------------------------------------------------------------------------------------------

    def get_table_statistics(self, table_path: ObjectPath) -> CatalogTableStatistics:
        return self._known_statistics(table_path, None).table

    def get_table_column_statistics(self, table_path: ObjectPath) -> CatalogColumnStatistics:
        return self._known_statistics(table_path, None).columns

    def get_partition_statistics(self, table_path: ObjectPath, partition: PartitionSpec) -> CatalogTableStatistics:
        return self._known_statistics(table_path, partition).table

    def get_partition_column_statistics(
        self, table_path: ObjectPath, partition: PartitionSpec
    ) -> CatalogColumnStatistics:
        return self._known_statistics(table_path, partition).columns

    def alter_table_statistics(
        self, table_path: ObjectPath, table_statistics: CatalogTableStatistics, ignore_if_not_exists: bool
    ) -> None:
        self._put_statistics(table_path, None, ignore_if_not_exists, table=table_statistics)

    def alter_table_column_statistics(
        self, table_path: ObjectPath, column_statistics: CatalogColumnStatistics, ignore_if_not_exists: bool
    ) -> None:
        self._put_statistics(table_path, None, ignore_if_not_exists, columns=column_statistics)

    def alter_partition_statistics(
        self,
        table_path: ObjectPath,
        partition: PartitionSpec,
        partition_statistics: CatalogTableStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        self._put_statistics(table_path, partition, ignore_if_not_exists, table=partition_statistics)

    def alter_partition_column_statistics(
        self,
        table_path: ObjectPath,
        partition: PartitionSpec,
        column_statistics: CatalogColumnStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        self._put_statistics(table_path, partition, ignore_if_not_exists, columns=column_statistics)

    def _known_statistics(self, table_path: ObjectPath, partition: PartitionSpec | None) -> Statistics:
        self.get_table(table_path)
        return self._statistics.get(table_path, StatisticsStore()).get(partition)

    def _put_statistics(
        self, table_path: ObjectPath, partition: PartitionSpec | None, ignore_if_not_exists: bool, **parts: Any
    ) -> None:
        exists = table_path in self._tables and (partition is None or partition in self._partitions.get(table_path, ()))
        if exists:
            self._statistics.setdefault(table_path, StatisticsStore()).put(partition, **parts)
        elif not ignore_if_not_exists:
            self.get_table(table_path)
            raise CatalogError(
                f"Partition {dict(partition or ())} of table {table_path} in catalog {self.name} does not exist."
            )

    # -- functions ----------------------------------------------------------------------------------------------------

    def list_functions(self, database_name: str) -> list[str]:
        self._check_database(database_name)
        return [path.object_name for path in self._functions if path.database_name == database_name]

    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        function = self._functions.get(_lower(function_path))
        return super().get_function(function_path) if function is None else function

    def create_function(self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool) -> None:
        self._check_database(function_path.database_name)
        path = _lower(function_path)
        if path not in self._functions:
            self._functions[path] = function
        elif not ignore_if_exists:
            raise CatalogError(f"Function {function_path} already exists in Catalog {self.name}.")

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        path = _lower(function_path)
        if path in self._functions:
            self._functions[path] = new_function
        elif not ignore_if_not_exists:
            super().get_function(function_path)

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        if self._functions.pop(_lower(function_path), None) is None and not ignore_if_not_exists:
            super().get_function(function_path)

    # -- models -------------------------------------------------------------------------------------------------------

    def list_models(self, database_name: str) -> list[str]:
        self._check_database(database_name)
        return [path.object_name for path in self._models if path.database_name == database_name]

    def get_model(self, model_path: ObjectPath) -> CatalogModel:
        model = self._models.get(model_path)
        return super().get_model(model_path) if model is None else model

    def create_model(self, model_path: ObjectPath, model: CatalogModel, ignore_if_exists: bool) -> None:
        self._check_database(model_path.database_name)
        if model_path not in self._models:
            self._models[model_path] = model
        elif not ignore_if_exists:
            raise CatalogError(f"Model '{model_path}' already exists in catalog {self.name}.")

    def alter_model(self, model_path: ObjectPath, new_model: CatalogModel, ignore_if_not_exists: bool) -> None:
        if model_path in self._models:
            self._models[model_path] = new_model
        elif not ignore_if_not_exists:
            super().get_model(model_path)

    def rename_model(self, model_path: ObjectPath, new_model_name: str, ignore_if_not_exists: bool) -> None:
        if model_path not in self._models:
            if ignore_if_not_exists:
                return
            super().get_model(model_path)
        self.create_model(ObjectPath(model_path.database_name, new_model_name), self._models[model_path], False)
        del self._models[model_path]

    def drop_model(self, model_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        if self._models.pop(model_path, None) is None and not ignore_if_not_exists:
            super().get_model(model_path)

    # -----------------------------------------------------------------------------------------------------------------

    def _check_database(self, name: str) -> None:
        if name not in self._databases:
            raise self._no_database(name)

    def _no_database(self, name: str) -> CatalogError:
        return CatalogError(f"Database {name} does not exist in Catalog {self.name}.")

    def _no_table(self, path: ObjectPath) -> CatalogError:
        return CatalogError(f"Table (or view) {path} does not exist in Catalog {self.name}.")

    def _exists(self, path: ObjectPath) -> CatalogError:
        return CatalogError(f"Table (or view) {path} already exists in Catalog {self.name}.")


def _lower(path: ObjectPath) -> ObjectPath:
    return ObjectPath(path.database_name, path.object_name.lower())
