"""What the process that runs an application's program tells the Dispatcher that started it: lines of JSON on a pipe.

| line                              | when                                                                     |
|-----------------------------------|--------------------------------------------------------------------------|
| `{"job": id, "name": name}`       | a job was submitted, or found to be submitted already                    |
| `{"end": "returned"}`             | the program has run to its end, or called `sys.exit(0)`                  |
| `{"end": "exited", "status": n}`  | it called `sys.exit(n)`                                                  |
| `{"end": "raised", ...}`          | it raised `error`, with `traceback`; `is_canceled`: its job was canceled |

The end of the pipe without an `end` means that the process died.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

#: A text beyond this is cut in the report; the whole traceback is in the program's own output.
MAX_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    job_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """How the program's main ended: by itself (`status` 0 and no error), by `sys.exit`, or with an exception."""

    status: int = 0
    error: str = ""
    traceback: str = ""
    is_canceled: bool = False

    @property
    def has_returned(self) -> bool:
        return self.status == 0 and not self.error


def encode(report: JobSubmitted | ProgramEnded) -> bytes:
    """One line."""
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
    """Raises: ValueError where the line is no report."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"no report: {line[:100]!r}")
    if "job" in value:
        return JobSubmitted(str(value["job"]), str(value.get("name", "")))
    if "end" not in value:
        raise ValueError(f"no report: {line[:100]!r}")
    return ProgramEnded(
        int(value.get("status", 0)),
        str(value.get("error", "")),
        str(value.get("traceback", "")),
        bool(value.get("is_canceled", False)),
    )
