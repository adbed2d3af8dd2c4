"""BrokerConnection: asks one Kafka broker, over a connection of its own.

Only for what confluent-kafka does not offer (see `wire`). Speaks the plain protocol and TLS, and authenticates with
SASL PLAIN and SCRAM.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any

from flinkpy.common.errors import ConfigurationError, KafkaError
from flinkpy.connectors.kafka import scram
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


class BrokerConnection:
    """Thread: one at a time. Requests block until they are answered, `timeout_s` at most.

    Args:
        settings: librdkafka's properties of the connection: `security.protocol`, `ssl.*`, `sasl.*`.

    Raises:
        KafkaError: it cannot be reached, refuses us, or is no Kafka broker.
        ConfigurationError: `settings` ask for what is not spoken here.
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
            # A certificate that is not trusted will not be in a moment either: with a code it is not tried again.
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
        """The body of the answer.

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
                raise KafkaError(f"{self.address} does not speak Kafka's protocol (an answer of {length} bytes)")
            return response_body(api, self._correlation_id, self._receive(length))
        except OSError as error:
            self.close()
            raise KafkaError(f"Kafka broker {self.address}: {api.name} was not answered: {error}") from error

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
        user, password = str(settings.get("sasl.username", "")), str(settings.get("sasl.password", ""))
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
        elif mechanism in scram.HASHES:
            conversation = scram.ScramClient(mechanism, user, password)
            server_first = self._sasl(conversation.first())
            conversation.verify(self._sasl(conversation.final(server_first)))
        else:
            raise ConfigurationError(
                f"sasl.mechanism {mechanism} is not spoken by the exactly-once Kafka sink: it knows PLAIN, "
                f"{' and '.join(scram.HASHES)}. Delivery at least once works with every mechanism"
            )

    def _sasl(self, token: bytes) -> bytes:
        answer = self._exchange(SASL_AUTHENTICATE, Writer().bytes_(token).data)
        code, message = answer.int16(), answer.nullable_string()
        if code:
            raise KafkaError(
                f"Kafka broker {self.address} refuses us: {error_name(code)}: {message}",
                details={"code": error_name(code)},
            )
        return answer.bytes_()


def _tls_context(settings: dict[str, Any]) -> ssl.SSLContext:
    """As librdkafka makes it from the same properties."""
    unknown = sorted(key for key in settings if key.startswith("ssl.") and key not in _TLS_SETTINGS)
    if unknown:
        raise ConfigurationError(
            f"{', '.join(unknown)}: not known to the exactly-once Kafka sink, which knows {', '.join(_TLS_SETTINGS)}"
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


_TLS_SETTINGS = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
