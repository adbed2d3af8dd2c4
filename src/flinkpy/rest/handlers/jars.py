"""Operations of programs that users upload and run. Flink calls them jars; here they are Python programs."""

from __future__ import annotations

import asyncio
import re
import secrets
from http import HTTPStatus
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from flinkpy.configuration import checkpointing_options, core_options, pipeline_options, validate
from flinkpy.rest.applications import Application
from flinkpy.rest.errors import RestError, bad_request, not_found
from flinkpy.rest.messages.jars import (
    JarEntryInfo,
    JarFileInfo,
    JarListInfo,
    JarPlanRequestBody,
    JarRunApplicationRequestBody,
    JarRunApplicationResponseBody,
    JarRunRequestBody,
    JarRunResponseBody,
    JarUploadResponseBody,
    JobPlanInfo,
)
from flinkpy.rest.operation import (
    BOOLEAN,
    POSITIVE_INTEGER,
    TEXTS,
    EmptyBody,
    QueryParameter,
    RestCall,
    operation,
)
from flinkpy.rest.program_plan import explain, flink_plan
from flinkpy.rest.programs import Launch
from flinkpy.security import Role

_ID = re.compile("[0-9a-fA-F]{32}")

_PLAN_QUERY = (
    QueryParameter("programArg", "Arguments of the program, separated by commas.", TEXTS),
    QueryParameter("entry-class", "The entry point, a module, or `module:function`."),
    QueryParameter("parallelism", "Parallelism of operators without one.", POSITIVE_INTEGER),
)
_RUN_QUERY = (
    QueryParameter("allowNonRestoredState", "Skip state of operators that the program no longer has.", BOOLEAN),
    QueryParameter("savepointPath", "The savepoint to start from."),
    *_PLAN_QUERY,
)


def _check_enabled(call: RestCall) -> None:
    """Raises: RestError with status 404, as in Flink, if `web.submit.enable` is false."""
    if not call.context.options.may_submit:
        raise not_found(f"Unable to load requested file {'' if call.request is None else call.request.url.path}.")


@operation(
    "POST",
    "/jars/upload",
    "Uploads a program to the cluster, as multipart data with the name `jarfile`: a Python script, a zip file with "
    "`__main__.py`, or a wheel.",
    response=JarUploadResponseBody,
    takes_files=True,
)
async def upload_jar(call: RestCall) -> JarUploadResponseBody:
    _check_enabled(call)
    assert call.request is not None
    try:
        form = await call.request.form(max_files=1, max_fields=10)
    except HTTPException as error:
        raise bad_request(f"The request is not valid multipart form data: {error.detail}") from None
    except MultiPartException as error:
        raise bad_request(f"The request is not valid multipart form data: {error.message}") from None
    async with form_closed(form):
        files = [value for value in form.values() if isinstance(value, UploadFile)]
        if len(files) != 1 or not files[0].filename:
            raise bad_request("Exactly 1 file must be sent, received 0.")
        path = await asyncio.to_thread(call.context.programs.add, files[0].filename, files[0].file)
    return JarUploadResponseBody(filename=str(path), status="success")


class form_closed:
    """Removes the temporary files of a form."""

    def __init__(self, form: Any) -> None:
        self._form = form

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        await self._form.close()


@operation(
    "GET", "/jars", "Returns a list of all programs previously uploaded via '/jars/upload'.", response=JarListInfo
)
async def list_jars(call: RestCall) -> JarListInfo:
    _check_enabled(call)
    found = await asyncio.to_thread(call.context.programs.all)
    return JarListInfo(
        address="" if call.request is None else str(call.request.base_url).rstrip("/"),
        files=[
            JarFileInfo(
                id=one.id,
                name=one.name,
                uploaded=one.uploaded_ms,
                entry=[JarEntryInfo(name=name, description=description) for name, description in one.entries],
            )
            for one in found
        ],
    )


@operation("DELETE", "/jars/:jarid", "Deletes a program previously uploaded via '/jars/upload'.", response=EmptyBody)
async def delete_jar(call: RestCall) -> None:
    _check_enabled(call)
    await asyncio.to_thread(call.context.programs.delete, str(call.path["jarid"]))


_PLAN = (
    "Returns the dataflow plan of a job contained in a program previously uploaded via '/jars/upload'. The program "
    "runs, but its jobs do not. Program arguments can be passed both via the JSON request (recommended) or query "
    "parameters."
)


async def _plan(call: RestCall) -> JobPlanInfo:
    _check_enabled(call)
    launch, arguments, configuration = await _prepare(call)
    timeout_s = call.context.options.result_timeout_ms / 1000
    explained = await explain(launch, arguments, configuration, timeout_s)
    if not explained:
        raise bad_request("The program runs no job: it did not call execute().")
    return JobPlanInfo(plan=flink_plan(_given_id(call.body.job_id, "jobId") or secrets.token_hex(16), explained[0]))


# The program runs to be explained, so looking at it is running it.
plan_of_jar_by_get = operation(
    "GET",
    "/jars/:jarid/plan",
    _PLAN,
    request=JarPlanRequestBody,
    response=JobPlanInfo,
    query=_PLAN_QUERY,
    role=Role.SUBMIT,
)(_plan)
plan_of_jar = operation(
    "POST", "/jars/:jarid/plan", _PLAN, request=JarPlanRequestBody, response=JobPlanInfo, query=_PLAN_QUERY
)(_plan)


@operation(
    "POST",
    "/jars/:jarid/run",
    "Submits a job by running a program previously uploaded via '/jars/upload'. Program arguments can be passed both "
    "via the JSON request (recommended) or query parameters.",
    request=JarRunRequestBody,
    response=JarRunResponseBody,
    query=_RUN_QUERY,
)
async def run_jar(call: RestCall) -> JarRunResponseBody:
    """Answers when the program has submitted its first job, or has failed."""
    _check_enabled(call)
    application = await _start(call, secrets.token_hex(16))
    timeout_s = call.context.options.result_timeout_ms / 1000
    try:
        await asyncio.wait_for(application.begun.wait(), timeout_s)
    except TimeoutError:
        raise RestError(
            HTTPStatus.GATEWAY_TIMEOUT,
            f"The program has not submitted a job within {timeout_s:g} s. It runs on as application {application.id}.",
        ) from None
    if not application.jobs:
        raise bad_request(f"The program failed: {application.traceback or application.message}")
    return JarRunResponseBody(jobid=application.jobs[0], application_id=application.id)


@operation(
    "POST",
    "/jars/:jarid/run-application",
    "Submits an application by running a program previously uploaded via '/jars/upload'. ",
    request=JarRunApplicationRequestBody,
    response=JarRunApplicationResponseBody,
    status=HTTPStatus.ACCEPTED,
    query=_RUN_QUERY,
)
async def run_jar_as_application(call: RestCall) -> JarRunApplicationResponseBody:
    _check_enabled(call)
    application_id = _given_id(call.body.application_id, "applicationId") or secrets.token_hex(16)
    return JarRunApplicationResponseBody(applicationid=(await _start(call, application_id)).id)


async def _start(call: RestCall, application_id: str) -> Application:
    launch, arguments, configuration = await _prepare(call)
    name = str(call.path["jarid"])[17:]
    return call.context.applications.start(application_id, launch.program, name, arguments, configuration)


async def _prepare(call: RestCall) -> tuple[Launch, tuple[str, ...], dict[str, str]]:
    """Returns how to run the program, its arguments and its configuration. Raises: RestError, ConfigurationError."""
    body = call.body
    launch = await asyncio.to_thread(
        call.context.programs.launch, str(call.path["jarid"]), body.entry_class or call.query["entry-class"]
    )
    arguments = body.program_args_list if body.program_args_list is not None else call.query["programArg"]
    if any("\0" in one for one in arguments or ()):
        raise bad_request("An argument of a program cannot hold a null character.")
    changes = program_configuration(call)
    if launch.python_files:
        files = [*launch.python_files, *filter(None, [changes.get(pipeline_options.PYTHON_FILES.key)])]
        changes[pipeline_options.PYTHON_FILES.key] = ",".join(files)
    configuration = {**call.context.configuration.to_dict(), **changes}
    validate(configuration)
    return launch, tuple(arguments or ()), configuration


def program_configuration(call: RestCall) -> dict[str, str]:
    """Returns the options that a request sets for its program. Fields of the request precede its configuration."""
    body, query = call.body, call.query
    changes = dict(body.flink_configuration or {})
    if any("\0" in text for item in changes.items() for text in item):
        raise bad_request("An option cannot hold a null character.")
    parallelism = body.parallelism if body.parallelism is not None else query["parallelism"]
    if parallelism is not None:
        if parallelism < 1:
            raise bad_request(f"The parallelism is {parallelism}, but must be a positive number.")
        changes[core_options.PARALLELISM.key] = str(parallelism)
    job_id = _given_id(body.job_id, "jobId")
    if job_id is not None:
        changes[pipeline_options.JOB_ID.key] = job_id
    path = getattr(body, "savepoint_path", None) or query.get("savepointPath")
    skips = getattr(body, "allow_non_restored_state", None)
    skips = query.get("allowNonRestoredState") if skips is None else skips
    mode = getattr(body, "claim_mode", None) or getattr(body, "restore_mode", None)
    if path:
        changes[checkpointing_options.RESTORE_PATH.key] = path
    if skips:
        changes[checkpointing_options.IGNORE_UNCLAIMED_STATE.key] = "true"
    if mode:
        changes[checkpointing_options.CLAIM_MODE.key] = mode
    return changes


def _given_id(text: str | None, name: str) -> str | None:
    if text is not None and _ID.fullmatch(text) is None:
        raise bad_request(f"`{name}` is {text[:100]!r}, but must have 32 hexadecimal digits.")
    return None if text is None else text.lower()
