"""OutputTag: the name of a side output."""

from __future__ import annotations

from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types


class OutputTag:
    """The name and the type of a side output. A process function emits to it with `yield tag, value`.

    Tags with the same id are the same side output.

    Args:
        tag_id: the name of the side output.
        type_info: the type of its records. A list of types is a ROW type. None pickles them.

    Raises:
        ValueError: the name is empty.

    Example:
        ```
        late = OutputTag("late", Types.STRING())
        ```
    """

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        if not tag_id:
            raise ValueError("OutputTag tag_id cannot be None or empty string")
        self.tag_id = tag_id
        if type_info is None:
            self.type_info: TypeInformation = Types.PICKLED_BYTE_ARRAY()
        elif isinstance(type_info, list):
            self.type_info = RowTypeInfo(type_info)
        elif isinstance(type_info, TypeInformation):
            self.type_info = type_info
        else:
            raise TypeError("OutputTag type_info must be None, list or TypeInformation")

    def get_java_output_tag(self) -> None:
        from flinkpy.common.errors import UnsupportedOperationError

        raise UnsupportedOperationError("OutputTag.get_java_output_tag: flinkpy has no JVM")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id}, {self.type_info!r})"
