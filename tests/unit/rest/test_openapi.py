"""The OpenAPI document of the REST API."""

from __future__ import annotations

from typing import Any

from rest_harness import RestHarness

from flinkpy.rest.handlers import all_operations
from flinkpy.rest.openapi import openapi_document

OPERATIONS = {f"{one.verb} {one.path}": one for one in all_operations()}


def test_the_document_is_served_and_describes_every_operation() -> None:
    document = RestHarness().call("GET", "/v1/openapi.json").json()
    assert document["openapi"].startswith("3.")
    found = {
        f"{verb.upper()} {path.replace('{', ':').replace('}', '')}"
        for path, verbs in document["paths"].items()
        for verb in verbs
    }
    assert found == set(OPERATIONS)
    ids = [one["operationId"] for verbs in document["paths"].values() for one in verbs.values()]
    assert len(set(ids)) == len(ids)


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document = openapi_document(all_operations())
    names = set(document["components"]["schemas"])

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"].rpartition("/")[2]} if "$ref" in value else set()
            return own.union(*(references(one) for one in value.values()))
        return set().union(*(references(one) for one in value)) if isinstance(value, list) else set()

    assert references(document["paths"]) <= names and references(document["components"]) <= names


def test_the_document_says_nothing_of_types_null() -> None:
    def types(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["type"]} if isinstance(value.get("type"), str) else set()
            return own.union(*(types(one) for one in value.values()))
        return set().union(*(types(one) for one in value)) if isinstance(value, list) else set()

    assert "null" not in types(openapi_document(all_operations()))
