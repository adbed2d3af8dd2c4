"""The OpenAPI 3 document of the REST API, made from the operations themselves."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from flinkpy import __version__
from flinkpy.rest.operation import PATH_PARAMETERS, Operation

_ERROR = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
}
_REF = "#/components/schemas/{name}"


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Returns the document. It lists the paths under `/v1`; each exists without it, too."""
    every = list(operations)
    types = [one for operation in every for one in (operation.request, operation.response) if one is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    # Types may be lists, which cannot be keys of a dictionary by value.
    schema_of = {id(one): schema for one, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for operation in every:
        parts = (f"{{{part[1:]}}}" if part.startswith(":") else part for part in operation.path.split("/"))
        paths.setdefault("/".join(parts), {})[operation.verb.lower()] = _operation(operation, schema_of)
    return {
        "openapi": "3.0.3",
        "info": {"title": "flinkpy REST API", "version": f"v1/{__version__}", "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/v1"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {
                "ErrorResponseBody": _ERROR,
                **{name: _of_version_3_0(one) for name, one in components.items()},
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The output of `flinkpy token`."},
                "session": {"type": "apiKey", "in": "cookie", "name": "flinkpy-session"},
            },
        },
    }


def _operation(operation: Operation, schema_of: dict[int, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": getattr(operation.handler, "__name__", operation.name) + _suffix(operation),
        "summary": operation.summary,
        "tags": [operation.tag],
        "description": f"Requires the role `{operation.role.label}`.",
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": dict(PATH_PARAMETERS[name].schema)}
            for name in operation.path_parameters
        ]
        + [
            {"name": one.name, "in": "query", "description": one.description, "schema": dict(one.form.schema)}
            for one in operation.query
        ],
        "responses": {
            str(int(operation.status)): _response(operation, schema_of),
            "default": {
                "description": "The request was not fulfilled.",
                "content": {"application/json": {"schema": {"$ref": _REF.format(name="ErrorResponseBody")}}},
            },
        },
    }
    if operation.takes_files:
        fields = {"jarfile": {"type": "string", "format": "binary"}}
        body = {"multipart/form-data": {"schema": {"type": "object", "required": ["jarfile"], "properties": fields}}}
        described["requestBody"] = {"required": True, "content": body}
    elif operation.request is not None and operation.verb != "GET":  # OpenAPI gives a GET no body
        schema = _of_version_3_0(schema_of[id(operation.request)])
        described["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return described


def _suffix(operation: Operation) -> str:
    """Distinguishes operations that share a handler."""
    return "" if operation.handler.__name__[0] != "_" else f"_{operation.verb.lower()}"


def _response(operation: Operation, schema_of: dict[int, Any]) -> dict[str, Any]:
    phrase = HTTPStatus(operation.status).phrase
    if operation.response is None:
        schema: Any = {"type": "string", "format": "binary"}
        return {"description": phrase, "content": {operation.media_type: {"schema": schema}}}
    schema = _of_version_3_0(schema_of[id(operation.response)])
    return {"description": phrase, "content": {"application/json": {"schema": schema}}}


def _of_version_3_0(schema: Any) -> Any:
    """Returns a JSON schema in the dialect of OpenAPI 3.0, which has no type `null`."""
    if isinstance(schema, list):
        return [_of_version_3_0(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {name: _of_version_3_0(value) for name, value in schema.items()}
    choices = converted.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        rest = [one for one in choices if one != {"type": "null"}]
        others = {name: value for name, value in converted.items() if name not in ("anyOf", "default")}
        if len(rest) == 1 and "$ref" not in rest[0]:
            return {**others, **rest[0], "nullable": True}
        return {**others, "anyOf": rest, "nullable": True}
    if None in converted.get("enum", ()):
        converted["enum"] = [one for one in converted["enum"] if one is not None]
        converted["nullable"] = True
    if converted.get("default", "") is None:
        del converted["default"]
    return converted
