"""Handles malformed records: the job fails, or they are skipped and counted, or they go to a side output.

`on_error` of a file format or of a schema is one of:

| value | a malformed record |
|---|---|
| `"fail"` | fails the job with InputFormatError, which names its place and shows it |
| `"skip"` | is skipped and counted in the metric `numRecordsSkipped` of the operator |
| an OutputTag | is skipped, counted, and emitted to the side output as `(raw bytes, error)` |

The side output is exactly-once like the records: a barrier is at the same place between both. The type of the tag must
be `BAD_RECORD_TYPE` or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flinkpy.common.typeinfo import Types

FAIL = "fail"
SKIP = "skip"
METRIC_NAME = "numRecordsSkipped"
#: Flink's name for the same count. Source: MetricNames.NUM_RECORDS_IN_ERRORS.
ERRORS_METRIC_NAME = "numRecordsInErrors"
#: Type of the records of a side output: the raw bytes, and the error as text.
BAD_RECORD_TYPE = Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.STRING()])
#: Number of characters of a bad record in an error: enough to recognise it, too few to flood the log.
SHOWN_CHARACTERS = 500


class BadRecord(NamedTuple):
    """A malformed record and the reason."""

    raw: bytes
    error: str


def checked_on_error(on_error: Any) -> Any:
    """Returns `on_error`. Raises: ValueError if it is not "fail", "skip" or an OutputTag."""
    if on_error in (FAIL, SKIP) or hasattr(on_error, "tag_id"):
        return on_error
    raise ValueError(f'on_error must be "fail", "skip" or an OutputTag, not {on_error!r}')


def shown(raw: bytes | str) -> str:
    """Returns the beginning of a bad record for an error message."""
    text = raw if isinstance(raw, str) else raw[: 4 * SHOWN_CHARACTERS].decode("utf-8", "backslashreplace")
    text = text.rstrip("\r\n")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


class BadRecordReporter:
    """Counts bad records and emits them to their side output. Thread: task thread.

    Args:
        context: a SourceReaderContext.
        on_error: "skip" or an OutputTag. With "fail", there is nothing to report.
    """

    def __init__(self, context: Any, on_error: Any) -> None:
        self._context = context
        self._tag_id: str | None = getattr(on_error, "tag_id", None)
        self._counter: Any = None

    def report(self, bad: Sequence[BadRecord]) -> None:
        """Reports bad records. Call it between the good records before and after them, so that barriers are exact."""
        if not bad:
            return
        if self._counter is None:
            self._counter = self._context.metric_group.counter(METRIC_NAME)
            self._errors = self._context.metric_group.counter(ERRORS_METRIC_NAME)
        self._counter.inc(len(bad))
        self._errors.inc(len(bad))
        if self._tag_id is not None:
            from flinkpy.records.batch import Batch

            self._context.emit_to_side_output(self._tag_id, Batch([tuple(record) for record in bad]))
