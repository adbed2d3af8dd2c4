"""External resources, such as GPUs: what functions learn about them, and the interface of drivers that find them.

Source: org.apache.flink.api.common.externalresource.{ExternalResourceInfo,ExternalResourceDriver,
ExternalResourceDriverFactory}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set

#: The resources of a TaskExecutor by name.
ExternalResourceInfos = Mapping[str, frozenset["ExternalResourceInfo"]]


class ExternalResourceInfo(ABC):
    """One unit of an external resource, e.g. one GPU. Hashable."""

    @abstractmethod
    def get_property(self, key: str) -> str | None:
        """Returns the property of that name; None if there is none."""

    @abstractmethod
    def get_keys(self) -> Set[str]:
        """Returns the names of all properties."""


class ExternalResourceDriver(ABC):
    """Finds the units of one resource on this host."""

    @abstractmethod
    def retrieve_resource_info(self, amount: int) -> Set[ExternalResourceInfo]:
        """Returns the units. Called once, when the TaskExecutor starts. May block.

        Args:
            amount: the configured number of units.
        """


class ExternalResourceDriverFactory(ABC):
    """Creates drivers. `external-resource.<name>.driver-factory.class` names its class, as `module:Class`."""

    @abstractmethod
    def create_external_resource_driver(self, parameters: Mapping[str, str]) -> ExternalResourceDriver:
        """Creates a driver.

        Args:
            parameters: the options `external-resource.<name>.param.<key>`, by key.
        """
