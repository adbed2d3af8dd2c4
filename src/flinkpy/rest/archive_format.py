"""The form of archives: where they lie in a directory, and what is in them. Flink's history server reads them, too.

    <directory>/<cluster id>/applications/<application id>/application-summary
    <directory>/<cluster id>/applications/<application id>/jobs/<job id>
    <directory>/<job id>                                        written by releases of Flink before 2.3

A file has the answers of the REST API as they were at the end: `{"archive": [{"path": "/jobs/...", "json": "{...}"}]}`.
A job that was submitted by itself is the only job of an application with the id of the job.

Source: org.apache.flink.runtime.history.{FsJsonArchivist,ArchivePathUtils}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import ExternalError

APPLICATIONS = "applications"
JOBS = "jobs"
SUMMARY = "application-summary"
#: The path of the answer that lists jobs, or applications. Each archive has one with a single entry.
JOBS_OVERVIEW, APPLICATIONS_OVERVIEW = "/jobs/overview", "/applications/overview"

_ID = re.compile("[0-9a-f]{32}")
#: Paths of answers: as those of the REST API, and nothing else that a browser could take for another page.
_PATH = re.compile(r"(/[A-Za-z0-9._~:@!$&'()*+,;=%<>\[\] -]{1,255}){1,12}")


class ArchiveError(ExternalError):
    """An archive is damaged, or is none."""


@dataclass(frozen=True, slots=True)
class ArchivedAnswer:
    """An answer of the REST API.

    Attributes:
        path: the path of the request.
        body: the JSON text.
    """

    path: str
    body: str


def is_archive_id(name: str) -> bool:
    """True if a file or directory may be named after a cluster, an application or a job."""
    return _ID.fullmatch(name) is not None


def application_directory(directory: str, cluster_id: str, application_id: str) -> str:
    return f"{directory.rstrip('/')}/{cluster_id}/{APPLICATIONS}/{application_id}"


def encode_archive(answers: Iterable[ArchivedAnswer]) -> bytes:
    return json.dumps({"archive": [{"path": one.path, "json": one.body} for one in answers]}).encode()


def decode_archive(content: bytes, source: str) -> list[ArchivedAnswer]:
    """Returns the answers of an archive. Raises: ArchiveError, which names `source`."""
    try:
        found: Any = json.loads(content)
        answers = [_answer(one) for one in found["archive"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArchiveError(
            f"{source} is damaged, or is no archive: {type(error).__name__}: {error}", details={"path": source}
        ) from None
    if not answers:
        raise ArchiveError(f"{source} is damaged: it has no answers", details={"path": source})
    return answers


def _answer(found: Any) -> ArchivedAnswer:
    """Raises: KeyError, TypeError, ValueError."""
    path, body = found["path"], found["json"]
    if not isinstance(path, str) or not isinstance(body, str):
        raise TypeError("`path` and `json` must be texts")
    if _PATH.fullmatch(path) is None or ".." in path.split("/"):
        raise ValueError(f"{path[:200]!r} is not a path of the REST API")
    json.loads(body)
    return ArchivedAnswer(path, body)
