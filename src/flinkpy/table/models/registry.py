"""Finds the provider of a model by the option `provider`: flinkpy's own, and those that installed packages offer.

Source: org.apache.flink.table.factories.FactoryUtil.createModelProvider.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from flinkpy.common.errors import ValidationError
from flinkpy.table.catalog.catalog_model import ContextResolvedModel
from flinkpy.table.catalog.resolved_schema import MetadataColumn
from flinkpy.table.connectors.table_options import TableOptions, did_you_mean
from flinkpy.table.models.model_provider import ModelContext, ModelProviderFactory

#: The group of entry points: name = identifier, value = `module:class`.
ENTRY_POINT_GROUP = "flinkpy.table.models"
#: flinkpy's own factories below `flinkpy.table.models`. Each module is imported on first use.
_BUILT_IN = {"openai": "openai:OpenAIModelProviderFactory", "python": "python_model:PythonModelProviderFactory"}
PROVIDER = "provider"


def model_provider(found: ContextResolvedModel) -> tuple[ModelProviderFactory, ModelContext]:
    """Returns the factory of a model's provider, and the model with checked options.

    Raises: ValidationError if the option `provider` is missing or unknown, or other options are wrong.
    """
    name = f"model '{found.identifier.as_summary_string()}'"
    options = TableOptions(found.model.options, name)
    identifier = options.raw.get(PROVIDER)
    if identifier is None:
        raise ValidationError(
            f"The option '{PROVIDER}' of {name} is missing. It names the provider: {', '.join(_known())}.",
            details={"option": PROVIDER},
        )
    factory = _factory(identifier, name)
    options.check(identifier, factory.required_options, factory.optional_options, ignored=(PROVIDER,))
    metadata = {
        each.name: each.metadata_key or each.name for each in found.outputs.columns if isinstance(each, MetadataColumn)
    }
    context = ModelContext(
        found.identifier.as_summary_string(),
        found.inputs.to_row_type(),
        found.outputs.to_row_type(),
        metadata,
        options,
    )
    return factory, context


def _known() -> list[str]:
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def _factory(identifier: str, owner: str) -> ModelProviderFactory:
    own = _BUILT_IN.get(identifier)
    if own is not None:
        module, _, name = own.partition(":")
        factory: ModelProviderFactory = getattr(import_module(f"flinkpy.table.models.{module}"), name)()
        return factory
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == identifier:
            offered: ModelProviderFactory = point.load()()
            return offered
    known = _known()
    raise ValidationError(
        f"Could not find any factory for identifier '{identifier}' that implements a model provider, for {owner}.\n\n"
        "Available factory identifiers are:\n\n" + "\n".join(known) + did_you_mean(identifier, known),
        details={"option": PROVIDER, "value": identifier},
    )
