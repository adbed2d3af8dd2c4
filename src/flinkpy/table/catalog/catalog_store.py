"""CatalogStore: keeps the options of catalogs, so that another session can make them again.

Source: org.apache.flink.table.catalog.{CatalogStore, FileCatalogStore, GenericInMemoryCatalogStore}.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from flinkpy.common.errors import CatalogError, ConfigurationError, ValidationError
from flinkpy.configuration.loading import read_yaml
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import CATALOG_STORE_FILE_PATH, CATALOG_STORE_KIND


class CatalogStore(ABC):
    """The options of catalogs by their names. Catalogs that a program registers as objects are not in it."""

    @abstractmethod
    def store_catalog(self, name: str, options: dict[str, str]) -> None:
        """Keeps the options of CREATE CATALOG. Raises: CatalogError if they cannot be kept."""

    @abstractmethod
    def remove_catalog(self, name: str) -> None:
        """Forgets a catalog. It need not be there."""

    @abstractmethod
    def get_catalog(self, name: str) -> dict[str, str] | None:
        """Returns the options; None for an unknown catalog. Raises: CatalogError if they cannot be read."""

    @abstractmethod
    def list_catalogs(self) -> list[str]:
        """Returns the names of all catalogs in order."""


class GenericInMemoryCatalogStore(CatalogStore):
    """Keeps options in this process."""

    def __init__(self) -> None:
        self._options: dict[str, dict[str, str]] = {}

    def store_catalog(self, name: str, options: dict[str, str]) -> None:
        self._options[name] = dict(options)

    def remove_catalog(self, name: str) -> None:
        self._options.pop(name, None)

    def get_catalog(self, name: str) -> dict[str, str] | None:
        return self._options.get(name)

    def list_catalogs(self) -> list[str]:
        return sorted(self._options)


class FileCatalogStore(CatalogStore):
    """Keeps the options of each catalog in a YAML file of a directory, named after the catalog."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _path(self, name: str) -> Path:
        if not name or name.startswith(".") or "/" in name or os.sep in name:
            raise CatalogError(f"The catalog store cannot keep a catalog with the name '{name}' in a file.")
        return self._directory / f"{name}.yaml"

    def store_catalog(self, name: str, options: dict[str, str]) -> None:
        path = self._path(name)
        # JSON texts are YAML, too.
        lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in options.items()]
        hidden = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
            hidden.replace(path)
        except OSError as error:
            raise CatalogError(f"Failed to save catalog {name}'s configuration to {path}: {error.strerror}") from error

    def remove_catalog(self, name: str) -> None:
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise CatalogError(f"Failed to remove the file of catalog {name}: {error.strerror}") from error

    def get_catalog(self, name: str) -> dict[str, str] | None:
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            return read_yaml(path)
        except ConfigurationError as error:
            raise CatalogError(f"Failed to load catalog {name}'s configuration from {path}: {error.message}") from error

    def list_catalogs(self) -> list[str]:
        return sorted(each.stem for each in self._directory.glob("*.yaml") if not each.name.startswith("."))


def catalog_store(configuration: Any) -> CatalogStore:
    """Returns the store of a session. Raises: ValidationError if the options are wrong."""
    kind = read_option(configuration, CATALOG_STORE_KIND)
    if kind == "generic_in_memory":
        return GenericInMemoryCatalogStore()
    if kind != "file":
        raise ValidationError(
            f"Could not find a catalog store for '{CATALOG_STORE_KIND.key}' = '{kind}'. There are: file, "
            "generic_in_memory.",
            details={"option": CATALOG_STORE_KIND.key, "value": kind},
        )
    path = read_option(configuration, CATALOG_STORE_FILE_PATH)
    if not path:
        raise ValidationError(
            f"'{CATALOG_STORE_KIND.key}' = 'file' needs the option '{CATALOG_STORE_FILE_PATH.key}'.",
            details={"option": CATALOG_STORE_FILE_PATH.key},
        )
    return FileCatalogStore(Path(path.removeprefix("file://")))
