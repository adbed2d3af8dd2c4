"""Bodies of the operations of uploaded programs.

Source: org.apache.flink.runtime.webmonitor.handlers.{JarListInfo,JarUploadResponseBody,JarRunRequestBody,...}.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ClaimMode = Literal["CLAIM", "NO_CLAIM", "LEGACY"]


class JarUploadResponseBody(msgspec.Struct, kw_only=True):
    """The path of the stored file; its last part is the id of the program."""

    filename: str
    status: str


class JarEntryInfo(msgspec.Struct, kw_only=True):
    name: str
    description: str | None


class JarFileInfo(msgspec.Struct, kw_only=True):
    id: str
    name: str
    uploaded: int
    entry: list[JarEntryInfo]


class JarListInfo(msgspec.Struct, kw_only=True):
    """All uploaded programs. `address` is the URL of the server."""

    address: str
    files: list[JarFileInfo]


class JarPlanRequestBody(msgspec.Struct, kw_only=True, rename="camel"):
    """How to run a program. `entryClass` is an entry point, a module, or `module:function`."""

    entry_class: str | None = None
    program_args_list: list[str] | None = None
    parallelism: int | None = None
    job_id: str | None = None
    flink_configuration: dict[str, str] | None = None


class JarRunRequestBody(JarPlanRequestBody, kw_only=True, rename="camel"):
    allow_non_restored_state: bool | None = None
    savepoint_path: str | None = None
    restore_mode: ClaimMode | None = None
    claim_mode: ClaimMode | None = None


class JarRunApplicationRequestBody(JarPlanRequestBody, kw_only=True, rename="camel"):
    allow_non_restored_state: bool | None = None
    savepoint_path: str | None = None
    claim_mode: ClaimMode | None = None
    application_id: str | None = None


class JarRunResponseBody(msgspec.Struct, kw_only=True):
    """The first job of the program."""

    jobid: str
    application_id: str = msgspec.field(name="applicationId")


class JarRunApplicationResponseBody(msgspec.Struct, kw_only=True):
    applicationid: str


class JobPlanInfo(msgspec.Struct, kw_only=True):
    """The plan of a job."""

    plan: dict[str, Any]
