"""TypeSerializer: converts objects to bytes and back. Source: pyflink.common.serializer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes objects of one type to a stream of bytes and reads them back."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Writes `element` to the stream."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Returns the next element of the stream."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(repr(self))


#: The namespace of state without a namespace.
void = b""


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """The serializer of the void namespace, for state without a namespace."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        return

    def deserialize(self, stream: BytesIO) -> bytes:
        return void
