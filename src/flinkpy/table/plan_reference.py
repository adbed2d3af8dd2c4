"""PlanReference: where a compiled plan is. Source: pyflink.table.plan_reference."""

from __future__ import annotations

from pathlib import Path

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError

__all__ = ["BytesContentPlanReference", "FilePlanReference", "JsonContentPlanReference", "PlanReference"]


class PlanReference:
    """A compiled plan in a file or a text, for `TableEnvironment.load_plan`."""

    @staticmethod
    def from_file(path: str | Path) -> FilePlanReference:
        """Returns a reference to a file with JSON."""
        return FilePlanReference(Path(path))

    @staticmethod
    def from_json_string(json_string: str) -> JsonContentPlanReference:
        """Returns a reference to a JSON text."""
        return JsonContentPlanReference(json_string)

    @staticmethod
    def from_smile_bytes(smile_bytes: bytes) -> BytesContentPlanReference:
        """Raises: UnsupportedOperationError, because flinkpy writes plans as JSON only."""
        raise UnsupportedOperationError(
            "flinkpy does not read plans in Smile, a binary form of JSON. Use PlanReference.from_json_string or "
            "from_file."
        )

    def content(self) -> str:
        """Returns the JSON text. Raises: TableProgramError if it cannot be read. Beyond PyFlink."""
        raise NotImplementedError


class FilePlanReference(PlanReference):
    """A plan in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def content(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TableProgramError(
                f"Cannot load the plan file '{self._path}'. The file does not exist.",
                details={"path": str(self._path)},
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise TableProgramError(f"Cannot read the plan file '{self._path}': {error}") from error


class JsonContentPlanReference(PlanReference):
    """A plan as JSON text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def content(self) -> str:
        return self._text


class BytesContentPlanReference(PlanReference):
    """A plan in Smile, which flinkpy does not have."""
