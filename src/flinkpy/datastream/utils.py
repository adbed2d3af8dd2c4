"""What PyFlink keeps in `pyflink.datastream.utils`: ResultTypeQueryable, and conversions to and from Java objects.

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
    """A source, format or schema that knows the type of the records it makes."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation: ...


def create_hadoop_configuration(config: Configuration) -> Any:
    """Always raises: it would be a Java object."""
    raise UnsupportedOperationError(
        "create_hadoop_configuration: flinkpy has no JVM; give the Configuration itself to the format or file system"
    )


def create_java_properties(config: Configuration) -> Any:
    """Always raises: it would be a Java object."""
    raise UnsupportedOperationError("create_java_properties: flinkpy has no JVM; use Configuration.to_dict()")


def convert_to_python_obj(data: Any, type_info: TypeInformation) -> Any:
    """The record: it is a Python object already, or its pickle where the type is PICKLED_BYTE_ARRAY."""
    return pickle.loads(data) if isinstance(type_info, PickledBytesTypeInfo) else data


def pickled_bytes_to_python_obj(data: Any, type_info: TypeInformation) -> Any:
    """Always raises: the bytes of such a record are made in the JVM."""
    raise UnsupportedOperationError(
        "pickled_bytes_to_python_obj: flinkpy has no JVM that would pickle a record; records are Python objects"
    )
