"""Names of tables are found in temporary objects, then in catalogs, and unknown ones are reported with a hint."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import CatalogError, ValidationError
from flinkpy.sql.types.logical_types import IntType
from flinkpy.table.catalog.catalog import GenericInMemoryCatalog
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_tables import CatalogDatabase, CatalogTable, CatalogView
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import PhysicalColumn, ResolvedSchema
from flinkpy.table.schema import Schema


class PhysicalOnly:
    """Resolves schemas of physical columns whose types are logical types."""

    def resolve_schema(self, schema: Schema, description: str) -> ResolvedSchema:
        return ResolvedSchema(tuple(PhysicalColumn(each.name, each.type) for each in schema.columns))  # type: ignore[attr-defined]


@pytest.fixture
def manager() -> CatalogManager:
    manager = CatalogManager()
    manager.schema_resolver = PhysicalOnly()
    return manager


def table(column: str = "a") -> CatalogTable:
    return CatalogTable(Schema.new_builder().column(column, IntType()).build(), {"connector": "datagen"})


def test_names_of_one_and_two_parts_are_completed_by_the_current_database(manager: CatalogManager) -> None:
    assert str(manager.qualify(("t",))) == "`default_catalog`.`default_database`.`t`"
    assert manager.qualify(("d", "t")) == ObjectIdentifier("default_catalog", "d", "t")
    assert manager.qualify(("c", "d", "t")) == ObjectIdentifier("c", "d", "t")


def test_a_temporary_table_hides_the_permanent_one_until_it_is_dropped(manager: CatalogManager) -> None:
    name = manager.qualify(("t",))
    manager.create_table(name, table("a"), False)
    manager.create_temporary_table(name, table("b"), False)
    found = manager.get_table_or_error(("t",))
    assert found.is_temporary and found.resolved_schema.column_names == ("b",)
    with pytest.raises(ValidationError, match="Drop it first"):
        manager.drop_table(name, False)
    manager.drop_temporary_table(name, False)
    assert manager.get_table_or_error(("t",)).resolved_schema.column_names == ("a",)


def test_an_unknown_table_is_reported_with_a_similar_name(manager: CatalogManager) -> None:
    manager.create_table(manager.qualify(("orders",)), table(), False)
    with pytest.raises(ValidationError, match=r"Object 'order' not found \(did you mean 'orders'\?\)"):
        manager.get_table_or_error(("order",))


def test_a_table_is_not_created_twice_unless_that_is_asked_for(manager: CatalogManager) -> None:
    name = manager.qualify(("t",))
    assert manager.create_table(name, table(), False)
    assert not manager.create_table(name, table(), True)
    with pytest.raises(ValidationError, match="already exists"):
        manager.create_table(name, table(), False)


def test_tables_and_views_are_listed_in_order_and_dropped_by_their_kind(manager: CatalogManager) -> None:
    schema = Schema.new_builder().column("a", IntType()).build()
    manager.create_table(manager.qualify(("t",)), table(), False)
    manager.create_table(manager.qualify(("v",)), CatalogView(schema, "SELECT 1", "SELECT 1"), False)
    manager.create_temporary_table(manager.qualify(("b",)), table(), False)
    assert manager.list_tables() == ["b", "t", "v"]
    assert manager.list_views() == ["v"]
    assert manager.list_temporary_tables() == ["b"]
    with pytest.raises(ValidationError, match=r"Table with identifier .*`v`' does not exist"):
        manager.drop_table(manager.qualify(("v",)), False)
    assert manager.drop_table(manager.qualify(("v",)), False, is_view=True)
    assert not manager.drop_table(manager.qualify(("v",)), True, is_view=True)


def test_the_current_catalog_and_database_can_be_changed_and_unset(manager: CatalogManager) -> None:
    other = GenericInMemoryCatalog("other", "db")
    manager.register_catalog("other", other)
    other.create_database("second", CatalogDatabase(), False)
    manager.use_catalog("other")
    manager.use_database("second")
    assert manager.qualify(("t",)) == ObjectIdentifier("other", "second", "t")
    with pytest.raises(CatalogError, match=r"database with name .third. does not exist"):
        manager.use_database("third")
    with pytest.raises(CatalogError, match=r"catalog with name .othr. does not exist. \(did you mean 'other'"):
        manager.use_catalog("othr")
    manager.use_catalog(None)
    with pytest.raises(ValidationError, match="A current catalog has not been set"):
        manager.qualify(("t",))


def test_a_database_with_tables_is_dropped_only_with_cascade(manager: CatalogManager) -> None:
    catalog = manager.catalog_or_error("default_catalog")
    catalog.create_database("d", CatalogDatabase(), False)
    manager.create_table(manager.qualify(("d", "t")), table(), False)
    with pytest.raises(CatalogError, match="not empty"):
        catalog.drop_database("d", False)
    catalog.drop_database("d", False, cascade=True)
    assert manager.get_table(manager.qualify(("d", "t"))) is None
