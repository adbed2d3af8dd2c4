"""ObjectPath and ObjectIdentifier: names of catalog objects, below a catalog and in full.

Source: org.apache.flink.table.catalog.{ObjectPath, ObjectIdentifier}.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.errors import ValidationError


def quoted(name: str) -> str:
    """Returns the name in backticks."""
    return f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """A database and an object of it, such as a table."""

    database_name: str
    object_name: str

    @property
    def full_name(self) -> str:
        return f"{self.database_name}.{self.object_name}"

    def __str__(self) -> str:
        return self.full_name


@dataclass(frozen=True, slots=True)
class ObjectIdentifier:
    """The full name of an object: catalog, database and object."""

    catalog_name: str
    database_name: str
    object_name: str

    def to_object_path(self) -> ObjectPath:
        return ObjectPath(self.database_name, self.object_name)

    def as_serializable_string(self) -> str:
        """Returns the name for SQL: each part in backticks."""
        return ".".join(map(quoted, self.parts))

    def as_summary_string(self) -> str:
        return ".".join(self.parts)

    @property
    def parts(self) -> tuple[str, str, str]:
        return self.catalog_name, self.database_name, self.object_name

    @staticmethod
    def of(*parts: str) -> ObjectIdentifier:
        """Returns the identifier with three parts. Raises: ValidationError if there are not three, or one is empty."""
        if len(parts) != 3 or not all(parts):
            raise ValidationError(f"an identifier needs a catalog, a database and an object name, not {parts}")
        return ObjectIdentifier(*parts)

    def __str__(self) -> str:
        return self.as_serializable_string()
