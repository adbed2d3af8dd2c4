"""Submission of a JobGraph, for clients that have one. Programs are submitted through `/jars`."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from google.protobuf.message import DecodeError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.rest.errors import bad_request, not_found
from flinkpy.rest.messages.job_submission import JobSubmitRequestBody, JobSubmitResponseBody
from flinkpy.rest.operation import RestCall, operation

#: How a serialized Java object begins, which is what Flink's own client sends.
_JAVA_OBJECT = b"\xac\xed"


@operation(
    "POST",
    "/jobs",
    "Submits a job: multipart data with the JSON of the request under the name `request`, and the file it names, a "
    "serialized message JobGraph of flinkpy. Graphs of Flink's own client are refused, because they hold Java objects.",
    response=JobSubmitResponseBody,
    status=HTTPStatus.ACCEPTED,
    takes_files=True,
)
async def submit_job(call: RestCall) -> JobSubmitResponseBody:
    assert call.request is not None
    if not call.context.options.may_submit:
        raise not_found(f"Unable to load requested file {call.request.url.path}.")
    try:
        form = await call.request.form(max_files=100, max_fields=10)
    except HTTPException as error:
        raise bad_request(f"The request is not valid multipart form data: {error.detail}") from None
    try:
        fields = dict(form.multi_items())
        request = fields.get("request")
        text = (await request.read()) if isinstance(request, UploadFile) else (request or "").encode()
        try:
            body = msgspec.json.decode(text, type=JobSubmitRequestBody)
        except msgspec.DecodeError as error:
            raise bad_request(f"The part `request` does not match JobSubmitRequestBody: {error}") from None
        files = {one.filename: one for one in form.values() if isinstance(one, UploadFile)}
        if body.execution_plan_file_name not in files:
            raise bad_request(f"The file {body.execution_plan_file_name[:200]!r} is missing.")
        content = await files[body.execution_plan_file_name].read()
    finally:
        await form.close()
    if content.startswith(_JAVA_OBJECT):
        raise bad_request("The file holds Java objects, which flinkpy cannot run: it runs Python programs.")
    try:
        graph = job_pb2.JobGraph.FromString(content)
    except DecodeError:
        raise bad_request("The file is no serialized JobGraph of flinkpy.") from None
    answer = await call.dispatcher.submit_job(dispatcher_pb2.SubmitJobRequest(job_graph=graph))
    return JobSubmitResponseBody(job_url=f"/jobs/{answer.job_id}")
