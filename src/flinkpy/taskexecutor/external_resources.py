"""Runs the drivers of external resources when a TaskExecutor starts.

Source: org.apache.flink.runtime.externalresource.ExternalResourceUtils.
Differs: a TaskExecutor whose driver fails, or finds fewer units than configured, does not start. Flink logs that and
offers the slots, so functions find an empty set.
"""

from __future__ import annotations

import importlib
import logging

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.external_resource import (
    ExternalResourceDriver,
    ExternalResourceDriverFactory,
    ExternalResourceInfo,
    ExternalResourceInfos,
)
from flinkpy.configuration.external_resources import ExternalResource, external_resources
from flinkpy.configuration.options import AnyConfiguration

logger = logging.getLogger(__name__)

_GPU = "flinkpy.taskexecutor.gpu_driver:GPUDriverFactory"
#: The factories of Flink, and ours.
_KNOWN = {"org.apache.flink.externalresource.gpu.GPUDriverFactory": _GPU, "gpu": _GPU}


def discover_external_resources(configuration: AnyConfiguration) -> ExternalResourceInfos:
    """Returns the units of each configured resource that has a driver. Blocks.

    Raises:
        ConfigurationError: a driver cannot be created or fails, or finds fewer units than configured.
    """
    infos = {}
    for resource in external_resources(configuration):
        if resource.driver_factory is None:
            logger.info("external resource %s: %d, only counted, as it has no driver", resource.name, resource.amount)
            continue
        infos[resource.name] = _units_of(resource)
    return infos


def _units_of(resource: ExternalResource) -> frozenset[ExternalResourceInfo]:
    try:
        units = frozenset(_driver_of(resource).retrieve_resource_info(resource.amount))
    except Exception as error:  # the driver may be the user's
        raise ConfigurationError(
            f"external resource {resource.name}: {error}",
            details={"option": f"external-resource.{resource.name}.driver-factory.class"},
        ) from error
    if len(units) < resource.amount:
        raise ConfigurationError(
            f"external resource {resource.name}: this host has {len(units)}, but "
            f"`external-resource.{resource.name}.amount` is {resource.amount}",
            details={"option": f"external-resource.{resource.name}.amount"},
        )
    logger.info("external resource %s: %s", resource.name, ", ".join(sorted(map(str, units))))
    return units


def _driver_of(resource: ExternalResource) -> ExternalResourceDriver:
    name = _KNOWN.get(resource.driver_factory or "", resource.driver_factory or "")
    module, _, class_name = name.partition(":")
    try:
        factory = getattr(importlib.import_module(module), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"driver-factory.class: {name!r} is neither one of {', '.join(_KNOWN)} nor a loadable module:Class: {error}"
        ) from error
    if not isinstance(factory, ExternalResourceDriverFactory):
        raise ConfigurationError(f"driver-factory.class: {name!r} is not an ExternalResourceDriverFactory")
    return factory.create_external_resource_driver(resource.parameters)
