"""Operation: one verb of one path of the REST API, with all that is needed to route, check, run and document it.

A handler is a coroutine function that the decorator `operation` makes an Operation:

    @operation("GET", "/jobs/:jobid", "Returns details of a job.", response=JobDetailsInfo)
    async def job_details(call: RestCall) -> JobDetailsInfo:
        ...

Path parameters are parsed by their names (`PATH_PARAMETERS`), query parameters by their declarations, and bodies by
msgspec.

Source: org.apache.flink.runtime.rest.messages.MessageHeaders.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from flinkpy.rest.errors import RestError, bad_request
from flinkpy.security import Role

if TYPE_CHECKING:
    from starlette.requests import Request

    from flinkpy.rest.context import RestContext


class EmptyBody(msgspec.Struct):
    """The body `{}`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """The text form of a parameter.

    Attributes:
        schema: the JSON schema of the OpenAPI document.
        parse: returns the value of a text, or raises ValueError with the expected form.
    """

    schema: Mapping[str, Any]
    parse: Callable[[str], Any]


def _matching(pattern: str, expected: str, convert: Callable[[str], Any] = str) -> Parameter:
    compiled = re.compile(pattern)

    def parse(text: str) -> Any:
        if compiled.fullmatch(text) is None:
            raise ValueError(expected)
        return convert(text)

    return Parameter({"type": "string", "pattern": f"^{pattern}$"}, parse)


_ID = _matching("[0-9a-fA-F]{32}", "expected 32 hexadecimal digits", str.lower)


def integer(minimum: int, maximum: int) -> Parameter:
    """Returns a parameter that is an integer between the two."""

    def parse(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,19}", text) is None or not minimum <= int(text) <= maximum:
            raise ValueError(f"expected an integer from {minimum} to {maximum}")
        return int(text)

    return Parameter({"type": "integer", "minimum": minimum, "maximum": maximum}, parse)


_INT = integer(0, 2_147_483_647)
#: Names of files and of processes: no slash, and not a directory.
_NAME = _matching(r"(?!\.{1,2}$)[^/\\\x00-\x1f]{1,255}", "expected a name without slashes")

#: The parameters of paths, by name. Names and forms are Flink's.
PATH_PARAMETERS: dict[str, Parameter] = {
    "applicationid": _ID,
    "attempt": _INT,
    "checkpointid": integer(0, 9_223_372_036_854_775_807),
    "datasetid": _ID,
    "filename": _NAME,
    "jarid": _NAME,
    "jobid": _ID,
    "operatorUid": _matching(r"[^/]{1,512}", "expected the uid of an operator"),
    "rescaleuuid": _ID,
    "subtaskindex": _INT,
    "taskmanagerid": _NAME,
    "triggerid": _ID,
    "vertexid": _ID,
}


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _texts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


TEXT = Parameter({"type": "string"}, str)
BOOLEAN = Parameter({"type": "boolean"}, _boolean)
#: A list separated by commas.
TEXTS = Parameter({"type": "string"}, _texts)
POSITIVE_INTEGER = integer(1, 2_147_483_647)
COUNT = _INT


def one_of(*choices: str) -> Parameter:
    """Returns a parameter with these values, in lower case; callers may write them in any case."""

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return text.lower()

    return Parameter({"type": "string", "enum": list(choices)}, parse)


def some_of(*choices: str) -> Parameter:
    """Returns a parameter that is a list of these values, separated by commas."""
    single = one_of(*choices)

    def parse(text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(single.parse(part) for part in _texts(text)))

    return Parameter({"type": "string"}, parse)


def id_list(name: str) -> Parameter:
    """Returns a parameter that is a list of path parameters called `name`, separated by commas."""
    single = PATH_PARAMETERS[name]
    return Parameter({"type": "string"}, lambda text: tuple(single.parse(part) for part in _texts(text)))


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter after the `?`. Absent ones have the value `default`.

    Attributes:
        is_internal: Flink's operation does not have it.
    """

    name: str
    description: str
    form: Parameter = TEXT
    default: Any = None
    is_internal: bool = False


@dataclass(slots=True)
class RestCall:
    """One call of an operation.

    Attributes:
        context: what all handlers share, e.g. the gateways to the services.
        role: the role of the caller.
        path: the values of the path parameters, by name.
        query: the values of all query parameters, by name.
        body: the request body, of the type that the operation declares.
        request: the request itself, for multipart bodies and conditional headers.
        age_ms: how old the oldest answer of a service is that the handler has used. The header `age` tells it.
    """

    context: RestContext
    role: Role
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    request: Request | None = None
    age_ms: int = 0

    @property
    def dispatcher(self) -> Any:
        """The gateway of the leading Dispatcher, which this process may be. Raises: RestError with status 503."""
        return self.context.cluster.dispatcher()

    @property
    def job_id(self) -> str:
        return str(self.path["jobid"])


Handler = Callable[[RestCall], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A verb of a path.

    Attributes:
        path: Flink's form of it, e.g. `/jobs/:jobid`.
        role: the lowest role that may call it.
        response: the type of the response body; None: the handler returns a Starlette response, e.g. a file.
        media_type: the type of the response where `response` is None.
        request: the type of the request body; None: the operation takes none.
        takes_files: the body is multipart form data.
        is_internal: not in Flink's list of operations.
    """

    verb: str
    path: str
    handler: Handler
    summary: str
    role: Role
    status: HTTPStatus = HTTPStatus.OK
    response: Any = EmptyBody
    media_type: str = "text/plain"
    request: Any = None
    takes_files: bool = False
    query: tuple[QueryParameter, ...] = ()
    is_internal: bool = False

    @property
    def name(self) -> str:
        return f"{self.verb} {self.path}"

    @property
    def tag(self) -> str:
        """The first part of the path, by which the OpenAPI document groups operations."""
        return self.path.split("/")[1]

    @property
    def path_parameters(self) -> tuple[str, ...]:
        return tuple(part[1:] for part in self.path.split("/") if part.startswith(":"))

    def parse_path(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Returns the values of the path parameters. Raises: RestError with status 400."""
        return {name: _parsed("path", name, PATH_PARAMETERS[name], texts[name]) for name in self.path_parameters}

    def parse_query(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Returns the values of the query parameters; unknown ones are ignored. Raises: RestError with status 400."""
        return {
            one.name: _parsed("query", one.name, one.form, texts[one.name]) if one.name in texts else one.default
            for one in self.query
        }

    def parse_body(self, content: bytes) -> Any:
        """Returns the request body. An empty one has all defaults. Raises: RestError with status 400."""
        if self.request is None:
            return None
        try:
            return msgspec.json.decode(content or b"{}", type=self.request)
        except (msgspec.DecodeError, RecursionError) as error:
            reason = str(error) if isinstance(error, msgspec.DecodeError) else "it is nested too deeply"
            raise bad_request(
                f"Request did not match expected format {getattr(self.request, '__name__', 'of this operation')}: "
                f"{reason}"
            ) from None


def _parsed(kind: str, name: str, parameter: Parameter, text: str) -> Any:
    try:
        return parameter.parse(text)
    except ValueError as error:
        raise RestError(
            HTTPStatus.BAD_REQUEST,
            f'Cannot resolve {kind} parameter ({name}) from value "{text[:200]}": {error}',
        ) from None


def operation(
    verb: str,
    path: str,
    summary: str,
    *,
    role: Role | None = None,
    **attributes: Any,
) -> Callable[[Handler], Operation]:
    """Makes a handler an Operation. The role is READ for GET and SUBMIT for other verbs, unless given."""

    def make(handler: Handler) -> Operation:
        return Operation(
            verb=verb,
            path=path,
            handler=handler,
            summary=summary,
            role=role or (Role.READ if verb == "GET" else Role.SUBMIT),
            **attributes,
        )

    return make


def operations_of(module: ModuleType) -> list[Operation]:
    """Returns the operations that a module of handlers defines, in the order of definition."""
    found = [value for value in vars(module).values() if isinstance(value, Operation)]
    # A module may import an operation of another one, to use its handler.
    return [one for one in found if one.handler.__module__ == module.__name__]
