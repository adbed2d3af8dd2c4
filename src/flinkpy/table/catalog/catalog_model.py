"""CatalogModel: a model as CREATE MODEL declares it, and the model that a name stands for.

Source: org.apache.flink.table.catalog.{CatalogModel, ResolvedCatalogModel, ContextResolvedModel}.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.schema import Schema


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model as declared.

    Attributes:
        input_schema, output_schema: the columns that it needs, and those that it predicts.
        options: the WITH options, such as `provider`.
    """

    input_schema: Schema
    output_schema: Schema
    options: dict[str, str] = field(default_factory=dict)
    comment: str = ""

    @staticmethod
    def create_model(
        input_schema: Schema, output_schema: Schema, options: dict[str, str] | None = None, comment: str | None = None
    ) -> CatalogModel:
        """Returns a model."""
        return CatalogModel(input_schema, output_schema, dict(options or {}), comment or "")

    def copy(self) -> CatalogModel:
        return replace(self, options=dict(self.options))


@dataclass(frozen=True, slots=True)
class ContextResolvedModel:
    """A model that a name stands for, with the types of its columns."""

    identifier: ObjectIdentifier
    model: CatalogModel
    inputs: ResolvedSchema
    outputs: ResolvedSchema
    is_temporary: bool = False
