"""CatalogFactory: makes catalogs from the options of CREATE CATALOG; found by the option `type`.

Source: org.apache.flink.table.factories.{CatalogFactory, FactoryUtil}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import entry_points

from flinkpy.common.errors import ValidationError
from flinkpy.table.catalog.catalog import Catalog, GenericInMemoryCatalog

#: The group of entry points: the name is the value of `type`, the value a class derived from CatalogFactory.
ENTRY_POINT_GROUP = "flinkpy.table.catalogs"


#: Its module is imported on first use.
_JDBC = "jdbc"


class CatalogFactory(ABC):
    """A kind of catalogs.

    Attributes:
        identifier: the value of the option `type`.
        required_options, optional_options: the keys of its other options.
    """

    identifier: str
    required_options: Sequence[str] = ()
    optional_options: Sequence[str] = ()

    @abstractmethod
    def create_catalog(self, name: str, options: dict[str, str]) -> Catalog:
        """Returns a new catalog. The options have been checked."""


class GenericInMemoryCatalogFactory(CatalogFactory):
    """Catalogs that live as long as the session."""

    identifier = "generic_in_memory"
    optional_options = ("default-database",)

    def create_catalog(self, name: str, options: dict[str, str]) -> Catalog:
        return GenericInMemoryCatalog(name, options.get("default-database", "default"))


def create_catalog(name: str, options: dict[str, str]) -> Catalog:
    """Returns a new catalog.

    Args:
        options: those of CREATE CATALOG, with `type`.

    Raises: ValidationError if there is no such type, or options are missing or unknown.
    """
    given = dict(options)
    kind = given.pop("type", None)
    if kind is None:
        raise ValidationError("A catalog needs the option 'type', for example 'type' = 'generic_in_memory'.")
    factory = _factory(kind)
    known = {*factory.required_options, *factory.optional_options}
    missing = sorted(set(factory.required_options) - given.keys())
    if missing:
        raise ValidationError(
            f"One or more required options are missing for catalog type {kind}: {', '.join(missing)}",
            details={"option": missing[0]},
        )
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValidationError(
            f"Unsupported options for catalog type {kind}: {', '.join(unknown)}. Supported options: "
            f"{', '.join(sorted({'type', *known}))}",
            details={"option": unknown[0]},
        )
    return factory.create_catalog(name, given)


def _factory(kind: str) -> CatalogFactory:
    if kind == GenericInMemoryCatalogFactory.identifier:
        return GenericInMemoryCatalogFactory()
    if kind == _JDBC:
        from flinkpy.table.catalog.jdbc_catalog import JdbcCatalogFactory

        return JdbcCatalogFactory()
    offered = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if kind not in offered:
        known = ", ".join(sorted({GenericInMemoryCatalogFactory.identifier, _JDBC, *offered}))
        raise ValidationError(
            f"Could not find any factory for identifier '{kind}' that implements a catalog. Available factory "
            f"identifiers are: {known}. A catalog object in Python is registered by register_catalog.",
            details={"option": "type", "value": kind},
        )
    factory: CatalogFactory = offered[kind].load()()
    return factory
