"""Bodies of the submission of a job. Source: org.apache.flink.runtime.rest.messages.job.JobSubmitRequestBody."""

from __future__ import annotations

from typing import Any

import msgspec


class JobSubmitRequestBody(msgspec.Struct, kw_only=True, rename="camel"):
    """Names the file of the JobGraph. Files of jars and artifacts are accepted and ignored: the graph names its own."""

    execution_plan_file_name: str
    job_jar_file_names: list[str] = []
    job_artifact_file_names: list[Any] = []


class JobSubmitResponseBody(msgspec.Struct, kw_only=True, rename="camel"):
    job_url: str
