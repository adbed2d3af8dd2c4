"""Requests made at random from the OpenAPI document: none is answered with status 500.

The services do not answer, so it is the server itself that answers: it says with 503 that it has accepted a request.
FLINKPY_REST_FUZZ_CASES sets the number of requests for each operation.
"""

from __future__ import annotations

import functools
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from rest_harness import RestHarness, TestingServices

from flinkpy.common.errors import RpcUnavailableError
from flinkpy.rest.handlers import all_operations
from flinkpy.rest.openapi import openapi_document

CASES = int(os.environ.get("FLINKPY_REST_FUZZ_CASES", "2"))
#: Those that start a process are called by the tests with a cluster.
OPERATIONS = [one for one in all_operations() if "/jars/:jarid/" not in one.path]
VALID_AND_INVALID = [(one.name, "POSITIVE") for one in OPERATIONS] + [
    (one.name, "NEGATIVE")
    for one in OPERATIONS
    if one.path_parameters or one.query or (one.request is not None and one.verb != "GET")
]


@functools.cache
def described() -> Any:
    with warnings.catch_warnings():
        # It imports modules of other packages that these have deprecated.
        warnings.simplefilter("ignore")
        import schemathesis
    return schemathesis.openapi.from_dict(openapi_document(all_operations()))


@pytest.mark.parametrize("operation, generation", VALID_AND_INVALID, ids=str)
def test_no_request_is_answered_with_status_500(operation: str, generation: str, tmp_path: Path) -> None:
    schema = described()
    import schemathesis

    verb, _, path = operation.partition(" ")
    parts = [f"{{{part[1:]}}}" if part.startswith(":") else part for part in path.split("/")]
    strategy = schema["/".join(parts)][verb].as_strategy(generation_mode=schemathesis.GenerationMode[generation])
    down = RpcUnavailableError("no service answers")
    server = RestHarness(TestingServices(down, down))
    server.uploads = tmp_path

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def request(case: Any) -> None:
        sent = case.as_transport_kwargs(base_url="http://localhost:8081/v1")
        content = {key: sent[key] for key in ("params", "json") if sent.get(key) is not None}
        if isinstance(sent.get("files"), list):
            # It generates values of any type, of which HTTP knows only bytes.
            content["files"] = [(str(name), ("job.py", str(value).encode())) for name, value in sent["files"]]
        if isinstance(sent.get("data"), bytes | str):
            content["content"] = sent["data"]
        headers = {key.lower(): str(value) for key, value in (sent.get("headers") or {}).items()}
        kept = {key: value for key, value in headers.items() if key == "content-type"}
        answer = server.call(sent["method"], sent["url"].removeprefix("http://localhost:8081"), headers=kept, **content)
        assert answer.status_code != 500, answer.text
        if answer.status_code >= 400:
            assert list(answer.json()) == ["errors"]

    request()
