"""TypeSerializer: one object to and from a stream of bytes. Source: pyflink.common.serializer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None: ...

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(repr(self))


#: The only namespace of such state.
void = b""


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """The namespace of state that has none."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        return

    def deserialize(self, stream: BytesIO) -> bytes:
        return void
