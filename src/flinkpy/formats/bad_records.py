"""What happens to records that cannot be read: the job fails, they are counted, or they go to a side output.

`on_error` of a file format or of a schema is one of

| value | a record that cannot be read |
|---|---|
| `"fail"` | ends the job with InputFormatError, which names where it is and shows it |
| `"skip"` | is left out and counted in the metric `numRecordsSkipped` of its operator |
| an OutputTag | is left out, counted, and emitted with the tag as `(raw bytes, error)` |

What the tag gives is as exact as the records themselves: a checkpoint has either both or none of what lies on one side
of it. The tag's type is `BAD_RECORD_TYPE`, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flinkpy.common.typeinfo import Types

FAIL = "fail"
SKIP = "skip"
METRIC_NAME = "numRecordsSkipped"
#: Of the records of a side output: the raw bytes, and the error as text.
BAD_RECORD_TYPE = Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.STRING()])
#: So much of a bad record is shown in an error: enough to recognise it, not enough to flood the log.
SHOWN_CHARACTERS = 500


class BadRecord(NamedTuple):
    """A record that could not be read, and why."""

    raw: bytes
    error: str


def checked_on_error(on_error: Any) -> Any:
    """Raises: ValueError where it is none of the three."""
    if on_error in (FAIL, SKIP) or hasattr(on_error, "tag_id"):
        return on_error
    raise ValueError(f'on_error must be "fail", "skip" or an OutputTag, not {on_error!r}')


def shown(raw: bytes | str) -> str:
    """The beginning of a bad record, for an error message."""
    text = raw if isinstance(raw, str) else raw[: 4 * SHOWN_CHARACTERS].decode("utf-8", "backslashreplace")
    text = text.rstrip("\r\n")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


class BadRecordReporter:
    """Counts bad records and emits them with their tag. Thread: task thread.

    Args:
        context: a SourceReaderContext.
        on_error: `"skip"` or an OutputTag; with `"fail"` nothing is ever reported.
    """

    def __init__(self, context: Any, on_error: Any) -> None:
        self._context = context
        self._tag_id: str | None = getattr(on_error, "tag_id", None)
        self._counter: Any = None

    def report(self, bad: Sequence[BadRecord]) -> None:
        """To be called between the records before and those after, so that a barrier is on the right side of it."""
        if not bad:
            return
        if self._counter is None:
            self._counter = self._context.metric_group.counter(METRIC_NAME)
        self._counter.inc(len(bad))
        if self._tag_id is not None:
            from flinkpy.records.batch import Batch

            self._context.emit_to_side_output(self._tag_id, Batch([tuple(record) for record in bad]))
