"""PyFlink's `pyflink.datastream.utils`: ResultTypeQueryable, and conversions to and from Java objects.

Source: pyflink.datastream.utils.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import PickledBytesTypeInfo, TypeInformation


class ResultTypeQueryable:
    """A source, format or schema that knows the type of its records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records."""


def create_hadoop_configuration(config: Configuration) -> Any:
    """Raises UnsupportedOperationError: the result would be a Java object."""
    raise UnsupportedOperationError(
        "create_hadoop_configuration: flinkpy has no JVM; give the Configuration itself to the format or file system"
    )


def create_java_properties(config: Configuration) -> Any:
    """Raises UnsupportedOperationError: the result would be a Java object."""
    raise UnsupportedOperationError("create_java_properties: flinkpy has no JVM; use Configuration.to_dict()")


def convert_to_python_obj(data: Any, type_info: TypeInformation) -> Any:
    """Returns the record: `data` itself, or the object it pickles if the type is PICKLED_BYTE_ARRAY."""
    return pickle.loads(data) if isinstance(type_info, PickledBytesTypeInfo) else data


def pickled_bytes_to_python_obj(data: Any, type_info: TypeInformation) -> Any:
    """Raises UnsupportedOperationError: only the JVM makes the bytes of such a record."""
    raise UnsupportedOperationError(
        "pickled_bytes_to_python_obj: flinkpy has no JVM that pickles records; records are Python objects"
    )
