"""Catalogs are made by factories of packages, and another session makes them again from the catalog store."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from flinkpy.common.errors import CatalogError, ValidationError
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.catalog import catalog_factories
from flinkpy.table.catalog.catalog import Catalog, GenericInMemoryCatalog
from flinkpy.table.catalog.catalog_factories import CatalogFactory
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_store import FileCatalogStore


class ShelfFactory(CatalogFactory):
    """A catalog as a package offers it."""

    identifier = "shelf"
    required_options = ("room",)

    def create_catalog(self, name: str, options: dict[str, str]) -> Catalog:
        return GenericInMemoryCatalog(name, options["room"])


def test_another_session_makes_the_catalog_again(tmp_path: Path) -> None:
    first = CatalogManager(store=FileCatalogStore(tmp_path / "store"))
    first.create_catalog("mine", {"type": "generic_in_memory", "default-database": "ü: '\"x"}, False)
    second = CatalogManager(store=FileCatalogStore(tmp_path / "store"))
    assert second.catalog_names == ["default_catalog", "mine"]
    second.use_catalog("mine")
    assert second.current_database == "ü: '\"x"
    with pytest.raises(CatalogError, match="Catalog mine already exists"):
        second.create_catalog("mine", {"type": "generic_in_memory"}, False)


def test_a_dropped_catalog_is_gone_from_the_store(tmp_path: Path) -> None:
    store = FileCatalogStore(tmp_path)
    CatalogManager(store=store).create_catalog("mine", {"type": "generic_in_memory"}, False)
    CatalogManager(store=store).unregister_catalog("mine")
    assert store.list_catalogs() == []


def test_wrong_options_leave_nothing_in_the_store(tmp_path: Path) -> None:
    store = FileCatalogStore(tmp_path)
    manager = CatalogManager(store=store)
    with pytest.raises(ValidationError, match="Unsupported options for catalog type generic_in_memory: colour"):
        manager.create_catalog("mine", {"type": "generic_in_memory", "colour": "red"}, False)
    with pytest.raises(ValidationError, match="Available factory identifiers are: generic_in_memory"):
        manager.create_catalog("mine", {"type": "nope"}, False)
    with pytest.raises(CatalogError, match="cannot keep a catalog with the name"):
        manager.create_catalog("../mine", {"type": "generic_in_memory"}, False)
    assert list(tmp_path.iterdir()) == []


def test_a_package_offers_a_kind_of_catalogs(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("shelf", f"{__name__}:ShelfFactory", catalog_factories.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: ShelfFactory)
    monkeypatch.setattr(catalog_factories, "entry_points", lambda group: [point])
    manager = CatalogManager()
    with pytest.raises(ValidationError, match="required options are missing for catalog type shelf: room"):
        manager.create_catalog("books", {"type": "shelf"}, False)
    manager.create_catalog("books", {"type": "shelf", "room": "attic"}, False)
    assert manager.catalog_or_error("books").get_default_database() == "attic"


def test_the_store_is_an_option_of_the_session(tmp_path: Path) -> None:
    def session() -> TableEnvironment:
        settings = EnvironmentSettings.in_streaming_mode()
        settings.get_configuration().set_string("table.catalog-store.kind", "file")
        settings.get_configuration().set_string("table.catalog-store.file.path", str(tmp_path))
        return TableEnvironment.create(settings)

    session().execute_sql("CREATE CATALOG mine WITH ('type' = 'generic_in_memory')")
    again = session()
    again.execute_sql("USE CATALOG mine")
    assert again.get_current_catalog() == "mine"
    again.execute_sql("USE CATALOG default_catalog")
    again.execute_sql("DROP CATALOG mine")
    assert session().list_catalogs() == ["default_catalog"]


def test_a_file_store_needs_a_path() -> None:
    settings = EnvironmentSettings.in_streaming_mode()
    settings.get_configuration().set_string("table.catalog-store.kind", "file")
    with pytest.raises(ValidationError, match=r"needs the option 'table\.catalog-store\.file\.path'"):
        TableEnvironment.create(settings)
