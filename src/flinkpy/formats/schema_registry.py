"""SchemaRegistry: fetches and registers schemas at a Confluent Schema Registry, over HTTP.

It does not use the client in confluent-kafka, which needs five more packages for two kinds of requests.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html and
io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from flinkpy.common.errors import SchemaRegistryError

_TIMEOUT_S = 60
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
#: First byte of messages that begin with the id of their schema.
MAGIC_BYTE = 0
_PREFIX_BYTES = 5


@dataclass(frozen=True)
class RegistrySettings:
    """The addresses and credentials of a registry.

    Attributes:
        urls: tried one after the other until one answers.
        user_info: `user:password` for basic authentication.
        bearer_token: the token for bearer authentication.
        truststore: a PEM file with the certificates of authorities.
        keystore, keystore_password: a PEM file with the client's certificate and key, and the password of the key.
    """

    urls: tuple[str, ...]
    user_info: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    truststore: str | None = None
    keystore: str | None = None
    keystore_password: str | None = field(default=None, repr=False)


class SchemaRegistry:
    """Keeps every schema that it has seen: an id never gets another schema. Thread: any, one at a time."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._schemas: dict[int, str] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def schema_of(self, schema_id: int) -> str:
        """Returns the schema with an id. Raises: SchemaRegistryError."""
        if schema_id not in self._schemas:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}")
            if answer.get("schemaType", "AVRO") != "AVRO":
                raise SchemaRegistryError(f"the schema with the id {schema_id} is {answer['schemaType']}, not AVRO")
            self._schemas[schema_id] = answer["schema"]
        return self._schemas[schema_id]

    def id_of(self, subject: str, schema: str, registers: bool = True) -> int:
        """Returns the id of a schema of a subject.

        Args:
            registers: True to add the schema to the subject if it is not there.

        Raises: SchemaRegistryError: the registry cannot be reached, does not have the schema or refuses it.
        """
        key = (subject, schema)
        if key not in self._ids:
            path = f"/subjects/{quote(subject, safe='')}{'/versions' if registers else ''}"
            self._ids[key] = self._ask("POST", path, {"schema": schema})["id"]
        return self._ids[key]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request to the first registry that answers. Raises: SchemaRegistryError."""
        failures = []
        for url in self._settings.urls:
            try:
                return self._ask_one(url, method, path, body)
            except HTTPError as error:
                text = error.read().decode(errors="replace")
                if error.code < 500:
                    raise SchemaRegistryError(
                        f"the schema registry at {_shown(url)} answered {error.code} to {method} {path}: {text}",
                        details={"status": str(error.code)},
                    ) from error
                failures.append(f"{_shown(url)}: {error.code} {text}")
            except (URLError, OSError, http.client.HTTPException, ValueError) as error:
                failures.append(f"{_shown(url)}: {error}")
        raise SchemaRegistryError(f"no schema registry answers {method} {path}: {'; '.join(failures)}")

    def _ask_one(self, url: str, method: str, path: str, body: Any) -> Any:
        parts = urlsplit(url)
        address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        data = None if body is None else json.dumps(body).encode()
        request = Request(address + path, data, self._headers(parts), method=method)
        context = self._tls() if parts.scheme == "https" else None
        with urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:
            return json.loads(answer.read())

    def _headers(self, url: Any) -> dict[str, str]:
        headers = {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE}
        user_info = self._settings.user_info
        if user_info is None and url.username is not None:
            user_info = f"{unquote(url.username)}:{unquote(url.password or '')}"
        if self._settings.bearer_token is not None:
            headers["Authorization"] = f"Bearer {self._settings.bearer_token}"
        elif user_info is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"
        return headers

    def _tls(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.create_default_context(cafile=settings.truststore)
        if settings.keystore is not None:
            context.load_cert_chain(settings.keystore, password=settings.keystore_password)
        return context


def _shown(url: str) -> str:
    """Returns a URL without the credentials in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def with_schema_id(schema_id: int, record: bytes) -> bytes:
    """Returns a message that begins with the id of its schema."""
    return bytes([MAGIC_BYTE]) + schema_id.to_bytes(4, "big") + record


def split_schema_id(message: bytes) -> tuple[int, bytes]:
    """Returns the id of a message's schema and its record. Raises: ValueError."""
    if len(message) < _PREFIX_BYTES or message[0] != MAGIC_BYTE:
        raise ValueError("Unknown data format. Magic number does not match")
    return int.from_bytes(message[1:_PREFIX_BYTES], "big"), message[_PREFIX_BYTES:]
