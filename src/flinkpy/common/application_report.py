"""Reports of an application's program process to the Dispatcher that started it: lines of JSON on a pipe.

| line                              | when                                                                     |
|-----------------------------------|--------------------------------------------------------------------------|
| `{"job": id, "name": name}`       | a job was submitted, or had been submitted before                        |
| `{"end": "returned"}`             | the program returned, or called `sys.exit(0)`                            |
| `{"end": "exited", "status": n}`  | the program called `sys.exit(n)`                                         |
| `{"end": "raised", ...}`          | the program raised `error`; `is_canceled`: because its job was canceled  |

If the pipe ends without an `end` line, the process has died.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

#: Maximum length of a text in a report. The program's own output contains the whole traceback.
MAX_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    job_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """The end of the program: it returned (`status` 0, no error), called `sys.exit`, or raised an exception."""

    status: int = 0
    error: str = ""
    traceback: str = ""
    is_canceled: bool = False

    @property
    def has_returned(self) -> bool:
        return self.status == 0 and not self.error


def encode(report: JobSubmitted | ProgramEnded) -> bytes:
    """Returns the report as one line."""
    if isinstance(report, JobSubmitted):
        value: dict[str, object] = {"job": report.job_id, "name": report.name[:MAX_TEXT]}
    elif report.error:
        value = {
            "end": "raised",
            "error": report.error[:MAX_TEXT],
            "traceback": report.traceback[-MAX_TEXT:],
            "is_canceled": report.is_canceled,
            "status": report.status,
        }
    elif report.status:
        value = {"end": "exited", "status": report.status}
    else:
        value = {"end": "returned"}
    return json.dumps(value).encode() + b"\n"


def decode(line: bytes) -> JobSubmitted | ProgramEnded:
    """Returns the report of a line. Raises: ValueError if the line is not a report."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"not a report of an application: {line[:100]!r}")
    if "job" in value:
        return JobSubmitted(str(value["job"]), str(value.get("name", "")))
    if "end" not in value:
        raise ValueError(f"not a report of an application: {line[:100]!r}")
    return ProgramEnded(
        int(value.get("status", 0)),
        str(value.get("error", "")),
        str(value.get("traceback", "")),
        bool(value.get("is_canceled", False)),
    )
