"""The description of the REST API. This operation is flinkpy's own."""

from __future__ import annotations

import functools
from typing import Any

from flinkpy.rest.openapi import openapi_document
from flinkpy.rest.operation import RestCall, operation


@operation(
    "GET",
    "/openapi.json",
    "Returns the OpenAPI 3 document of this API.",
    response=dict[str, Any],
    is_internal=True,
)
async def openapi(call: RestCall) -> dict[str, Any]:
    return _document()


@functools.cache
def _document() -> dict[str, Any]:
    from flinkpy.rest.handlers import all_operations

    return openapi_document(all_operations())
