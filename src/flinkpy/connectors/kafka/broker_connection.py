"""BrokerConnection: sends requests to one Kafka broker over a dedicated connection.

It only sends requests that confluent-kafka does not offer (see `wire`). It supports TLS, SASL PLAIN and SCRAM.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from typing import Any

from flinkpy.common.errors import ConfigurationError, KafkaError
from flinkpy.connectors.kafka.wire import (
    API_VERSIONS,
    MAX_RESPONSE_BYTES,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Api,
    Reader,
    Writer,
    error_name,
    request_bytes,
    response_body,
)

CLIENT_ID = "flinkpy"
#: The librdkafka settings of TLS that are supported here.
_TLS_SETTINGS = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)

#: The hash functions of the SCRAM mechanisms.
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: A broker that asks for more iterations tries to exhaust our CPU.
MAX_SCRAM_ITERATIONS = 1_000_000


class BrokerConnection:
    """A connection to a broker. A request blocks until it is answered, for at most `timeout_s` seconds.

    Thread: one at a time.

    Args:
        settings: the librdkafka settings of the connection: `security.protocol`, `ssl.*`, `sasl.*`.

    Raises:
        KafkaError: the broker cannot be reached, refuses the connection, or is not a Kafka broker.
        ConfigurationError: the settings need a feature that is not supported here.
    """

    def __init__(self, host: str, port: int, settings: dict[str, Any], timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self._correlation_id = 0
        self._socket: socket.socket | None = None
        protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
        tls = _tls_context(settings) if protocol in ("SSL", "SASL_SSL") else None
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            self.close()
            # A retry does not help against an untrusted certificate. This error code prevents it.
            details = {"code": "_SSL"} if isinstance(error, ssl.SSLCertVerificationError) else {}
            raise KafkaError(f"Kafka broker {self.address} cannot be reached: {error}", details=details) from error
        try:
            if protocol.startswith("SASL"):
                self._authenticate(settings)
            self._supported = self._ask_versions()
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def ask(self, api: Api, body: bytes) -> Reader:
        """Sends a request and returns the body of the answer.

        Raises:
            KafkaError: the connection broke, or the broker does not know the request.
        """
        lowest, highest = self._supported.get(api.key, (0, -1))
        if not lowest <= api.version <= highest:
            raise KafkaError(
                f"Kafka broker {self.address} does not know {api.name} version {api.version}: exactly-once needs "
                "Apache Kafka 3.0 or newer",
                details={"code": "UNSUPPORTED_VERSION"},
            )
        return self._exchange(api, body)

    def close(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def _exchange(self, api: Api, body: bytes) -> Reader:
        if self._socket is None:
            raise KafkaError(f"the connection to Kafka broker {self.address} is closed")
        self._correlation_id += 1
        try:
            self._socket.sendall(request_bytes(api, self._correlation_id, CLIENT_ID, body))
            [length] = struct.unpack(">i", self._receive(4))
            if not 4 <= length <= MAX_RESPONSE_BYTES:
                raise KafkaError(f"{self.address} does not speak Kafka's protocol: its answer has {length} bytes")
            return response_body(api, self._correlation_id, self._receive(length))
        except OSError as error:
            self.close()
            raise KafkaError(f"Kafka broker {self.address} did not answer {api.name}: {error}") from error

    def _receive(self, length: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            data += part
        return bytes(data)

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self._exchange(API_VERSIONS, b"")
        code = answer.int16()
        if code:
            raise KafkaError(f"Kafka broker {self.address}: {error_name(code)}", details={"code": error_name(code)})
        return {answer.int16(): (answer.int16(), answer.int16()) for _ in range(answer.int32())}

    def _authenticate(self, settings: dict[str, Any]) -> None:
        mechanism = str(settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "GSSAPI").upper()
        user = str(settings.get("sasl.username", ""))
        password = str(settings.get("sasl.password", ""))
        answer = self._exchange(SASL_HANDSHAKE, Writer().string(mechanism).data)
        code = answer.int16()
        if code:
            offered = ", ".join(answer.string() for _ in range(answer.int32()))
            raise KafkaError(
                f"Kafka broker {self.address} refuses SASL mechanism {mechanism}; it offers {offered}",
                details={"code": error_name(code)},
            )
        if mechanism == "PLAIN":
            self._sasl(f"\0{user}\0{password}".encode())
        elif mechanism in SCRAM_HASHES:
            conversation = ScramClient(mechanism, user, password)
            server_first = self._sasl(conversation.first())
            conversation.verify(self._sasl(conversation.final(server_first)))
        else:
            raise ConfigurationError(
                f"the exactly-once Kafka sink does not support sasl.mechanism {mechanism}, only PLAIN, "
                f"{' and '.join(SCRAM_HASHES)}. Delivery at least once works with every mechanism"
            )

    def _sasl(self, token: bytes) -> bytes:
        answer = self._exchange(SASL_AUTHENTICATE, Writer().bytes_(token).data)
        code = answer.int16()
        message = answer.nullable_string()
        if code:
            raise KafkaError(
                f"Kafka broker {self.address} refuses the login: {error_name(code)}: {message}",
                details={"code": error_name(code)},
            )
        return answer.bytes_()


def _tls_context(settings: dict[str, Any]) -> ssl.SSLContext:
    """Returns the TLS context that librdkafka would create from these settings."""
    unknown = sorted(key for key in settings if key.startswith("ssl.") and key not in _TLS_SETTINGS)
    if unknown:
        raise ConfigurationError(
            f"the exactly-once Kafka sink does not support {', '.join(unknown)}, only {', '.join(_TLS_SETTINGS)}"
        )
    context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
    if settings.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=settings["ssl.ca.pem"])
    if settings.get("ssl.certificate.location"):
        context.load_cert_chain(
            settings["ssl.certificate.location"], settings.get("ssl.key.location"), settings.get("ssl.key.password")
        )
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() in ("none", ""):
        context.check_hostname = False
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class ScramClient:
    """The client of one SCRAM conversation (RFC 5802): it proves that it knows the password without sending it.

    Call `first`, then `final` and `verify`, each with the answer of the server to the message before.
    """

    def __init__(self, mechanism: str, user: str, password: str, nonce: str | None = None) -> None:
        self._hash = SCRAM_HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Returns the proof.

        Raises:
            KafkaError: the answer does not belong to `first`.
        """
        attributes = _scram_attributes(server_first)
        nonce = attributes.get("r", "")
        salt = attributes.get("s", "")
        iterations = int(attributes["i"]) if attributes.get("i", "").isdigit() else 0
        if not nonce.startswith(self._nonce) or not 0 < iterations <= MAX_SCRAM_ITERATIONS:
            raise KafkaError("SCRAM: the broker's answer does not belong to this conversation")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, base64.b64decode(salt), iterations)
        without_proof = f"c=biws,r={nonce}"
        whole = ",".join((self._first_bare, server_first.decode(), without_proof)).encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), whole)
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), whole)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
        return f"{without_proof},p={proof}".encode()

    def verify(self, server_final: bytes) -> None:
        """Checks the signature of the server.

        Raises:
            KafkaError: the server does not know the password.
        """
        attributes = _scram_attributes(server_final)
        if not hmac.compare_digest(base64.b64decode(attributes.get("v", "")), self._signature):
            raise KafkaError(f"SCRAM: the broker did not prove its identity: {attributes.get('e', 'wrong signature')}")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._hash).digest()


def _scram_attributes(message: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.decode().split(",") if "=" in part)
