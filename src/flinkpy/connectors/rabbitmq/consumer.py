"""QueueConsumer: a thread that takes messages out of a queue of RabbitMQ.

pika's connections belong to one thread. Whoever wants something of this one leaves it a note.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from flinkpy.common.errors import FlinkError, RabbitMQError
from flinkpy.connectors.rabbitmq.connection_config import RMQConnectionConfig, load_pika

_logger = logging.getLogger(__name__)

#: Messages that wait here; with more, the thread lets the server wait.
_MAX_WAITING = 10_000
#: How long the thread looks at the connection before it looks for notes.
_LOOK_S = 0.05


class Delivery(NamedTuple):
    """`tag`: what to acknowledge it by; `connection` counts those there have been, as tags are of one each.

    `is_redelivered`: it may have been sent before. One that was not is behind all that were.
    """

    connection: int
    tag: int
    is_redelivered: bool
    correlation_id: str | None
    body: bytes


class QueueConsumer:
    """Thread: any, but for `_run`.

    Args:
        acknowledges: whether messages stay the server's until `acknowledge`; or are gone when they are sent.
        reconnects: whether to go on when a connection breaks; the server then sends again what was not acknowledged.
        notify: called when there is something for `take`; from the thread.
    """

    def __init__(
        self,
        config: RMQConnectionConfig,
        queue: str,
        acknowledges: bool,
        reconnects: bool,
        notify: Callable[[], None],
    ) -> None:
        self._config = config
        self._queue = queue
        self._acknowledges = acknowledges
        self._reconnects = reconnects
        self._notify = notify
        self._waiting: deque[Delivery] = deque()
        self._has_room = threading.Event()
        self._has_room.set()
        self._to_acknowledge: deque[tuple[int, int, Any]] = deque()
        self._acknowledged: deque[Any] = deque()
        self._closed = threading.Event()
        self._error: BaseException | None = None
        self._connection_number = 0
        self._thread = threading.Thread(target=self._run, name=f"rabbitmq {queue}", daemon=True)

    def start(self) -> None:
        load_pika()
        self._thread.start()

    def take(self, limit: int) -> list[Delivery]:
        """Those that have come, oldest first; none, if none have. Raises: RabbitMQError (it has failed)."""
        waiting = self._waiting
        taken = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        if len(waiting) < _MAX_WAITING // 2:
            self._has_room.set()
        if not taken and self._error is not None:
            raise self._error
        return taken

    def acknowledge(self, connection: int, tag: int, token: Any) -> None:
        """The server may forget all messages of that connection up to this one."""
        self._to_acknowledge.append((connection, tag, token))

    def take_acknowledged(self) -> list[Any]:
        """The tokens of what the server has forgotten since the last call."""
        acknowledged = self._acknowledged
        return [acknowledged.popleft() for _ in range(len(acknowledged))]

    def close(self) -> None:
        self._closed.set()
        self._has_room.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._consume()
            except BaseException as error:  # noqa: BLE001 - whatever ends the thread is told to the task
                if self._is_fatal(error):
                    self._error = self._as_error(error)
                    self._notify()
                    return
                _logger.warning("%s, queue %s: %s; connecting anew", self._config.server, self._queue, _text(error))
                self._closed.wait(self._config.recovery_pause_s)

    def _is_fatal(self, error: BaseException) -> bool:
        """Without recovery any error; a refusal, and a server that was never reached, always."""
        exceptions = load_pika().exceptions
        refusals = (
            exceptions.ChannelClosedByBroker,
            exceptions.ProbableAuthenticationError,
            exceptions.ProbableAccessDeniedError,
        )
        is_of_connection = isinstance(error, (exceptions.AMQPError, OSError))
        return (
            not self._reconnects or not is_of_connection or isinstance(error, refusals) or self._connection_number == 0
        )

    def _as_error(self, error: BaseException) -> BaseException:
        if isinstance(error, FlinkError):
            return error
        failure = RabbitMQError(f"{self._config.server}, queue {self._queue!r}: {_text(error)}")
        failure.__cause__ = error
        return failure

    def _consume(self) -> None:
        """Until the connection breaks, or the consumer is closed."""
        connection = self._config.connect()
        try:
            channel = connection.channel()
            channel.queue_declare(self._queue, durable=True)
            if self._config.prefetch_count:
                channel.basic_qos(prefetch_count=self._config.prefetch_count)
            if self._acknowledges:
                # So that it is known when the server has taken an acknowledgement.
                channel.tx_select()
            self._connection_number += 1
            channel.basic_consume(self._queue, self._on_message, auto_ack=not self._acknowledges)
            while not self._closed.is_set():
                # Heartbeats are answered too while there is no room, only more slowly.
                self._has_room.wait(1.0)
                connection.process_data_events(_LOOK_S)
                self._acknowledge_on(channel)
        finally:
            if connection.is_open:
                connection.close()

    def _on_message(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        tag, is_redelivered = method.delivery_tag, method.redelivered
        self._waiting.append(Delivery(self._connection_number, tag, is_redelivered, properties.correlation_id, body))
        if len(self._waiting) >= _MAX_WAITING:
            self._has_room.clear()
        self._notify()

    def _acknowledge_on(self, channel: Any) -> None:
        last = 0
        done = []
        while self._to_acknowledge:
            connection, tag, token = self._to_acknowledge.popleft()
            if connection == self._connection_number:
                last = max(last, tag)
                done.append(token)
        if last:
            channel.basic_ack(last, multiple=True)
            channel.tx_commit()
            self._acknowledged.extend(done)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else repr(error)
