"""The configured external resources: their names, amounts, drivers and parameters.

Source: org.apache.flink.runtime.externalresource.ExternalResourceUtils.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.memory_options import EXTERNAL_RESOURCES
from flinkpy.configuration.options import AnyConfiguration, entries_of, read_option

_PREFIX = "external-resource"


@dataclass(frozen=True, slots=True)
class ExternalResource:
    """One configured resource. `driver_factory` names a class; None: the resource is only counted."""

    name: str
    amount: int
    driver_factory: str | None = None
    parameters: dict[str, str] = field(default_factory=dict)


def external_resources(configuration: AnyConfiguration) -> list[ExternalResource]:
    """Returns the resources that `external-resources` names, in order.

    Raises:
        ConfigurationError: an amount is missing or is no positive whole number.
    """
    names = read_option(configuration, EXTERNAL_RESOURCES)
    entries = entries_of(configuration)
    found = []
    for name in dict.fromkeys(name.strip() for name in names):
        if not name or name == "none":
            continue
        prefix = f"{_PREFIX}.{name}."
        parameters = f"{prefix}param."
        found.append(
            ExternalResource(
                name,
                _amount(f"{prefix}amount", entries.get(f"{prefix}amount")),
                entries.get(f"{prefix}driver-factory.class"),
                {key.removeprefix(parameters): entries[key] for key in entries if key.startswith(parameters)},
            )
        )
    return found


def external_resource_amounts(configuration: AnyConfiguration) -> dict[str, int]:
    """Returns how much of each external resource a TaskExecutor has. Raises: ConfigurationError."""
    return {resource.name: resource.amount for resource in external_resources(configuration)}


def _amount(key: str, text: str | None) -> int:
    if text is None or not text.strip().isdigit() or int(text) < 1:
        raise ConfigurationError(
            f"option `{key}` must be a positive whole number, because `external-resources` names it; it is {text!r}",
            details={"option": key},
        )
    return int(text)
