"""ModelDescriptor: describes a model for `TableEnvironment.create_model`. Source: pyflink.table.model_descriptor."""

from __future__ import annotations

from typing import Any

from flinkpy.table.catalog.catalog_model import CatalogModel
from flinkpy.table.schema import Schema

__all__ = ["ModelDescriptor"]


class ModelDescriptor:
    """A provider with its options, and the columns that a model needs and predicts.

    Example:
        >>> schema = Schema.new_builder().column("text", "STRING").build()
        >>> label = Schema.new_builder().column("label", "STRING").build()
        >>> ModelDescriptor.for_provider("python").option("model", "my.classify").input_schema(schema).output_schema(
        ...     label
        ... ).build()
    """

    def __init__(self, model: CatalogModel) -> None:
        self._model = model

    @staticmethod
    def for_provider(provider: str) -> ModelDescriptor.Builder:
        """Returns a builder for models of a provider, such as `openai` or `python`."""
        return ModelDescriptor.Builder(provider)

    def get_options(self) -> dict[str, str]:
        return dict(self._model.options)

    def get_input_schema(self) -> Schema | None:
        return self._model.input_schema

    def get_output_schema(self) -> Schema | None:
        return self._model.output_schema

    def get_comment(self) -> str | None:
        return self._model.comment or None

    def to_catalog_model(self) -> CatalogModel:
        """Returns what a catalog stores. Not part of PyFlink's API."""
        return self._model

    class Builder:
        """Builds a ModelDescriptor."""

        def __init__(self, provider: str) -> None:
            self._options = {"provider": provider}
            self._inputs = Schema.new_builder().build()
            self._outputs = Schema.new_builder().build()
            self._comment = ""

        def input_schema(self, input_schema: Schema) -> ModelDescriptor.Builder:
            self._inputs = input_schema
            return self

        def output_schema(self, output_schema: Schema) -> ModelDescriptor.Builder:
            self._outputs = output_schema
            return self

        def option(self, key: Any, value: Any) -> ModelDescriptor.Builder:
            """Sets an option, by its key or a ConfigOption."""
            self._options[key if isinstance(key, str) else key.key] = str(value)
            return self

        def comment(self, comment: str) -> ModelDescriptor.Builder:
            self._comment = comment
            return self

        def build(self) -> ModelDescriptor:
            return ModelDescriptor(CatalogModel(self._inputs, self._outputs, self._options, self._comment))
