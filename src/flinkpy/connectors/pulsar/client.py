"""PulsarConnection: what source and sink need of a cluster. `driver` has the one on `pulsar-client`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from flinkpy.connectors.pulsar.cursors import StartPosition
from flinkpy.connectors.pulsar.message_id import PulsarMessageId


class PulsarMessage(NamedTuple):
    """Times in ms since 1970; `event_time` 0: it has none."""

    message_id: PulsarMessageId
    data: bytes
    event_time: int
    publish_time: int


class Subscription(ABC):
    """This reader's part in a subscription of one partition. Thread: `receive` one, `acknowledge` another."""

    @abstractmethod
    def receive(self) -> list[PulsarMessage]:
        """Those that have come, or come within a moment; may be none. Raises: PulsarError."""

    @abstractmethod
    def acknowledge(self, message_ids: list[PulsarMessageId], is_cumulative: bool) -> None:
        """Pulsar need not keep them for this subscription; with `is_cumulative` nor what is before them. Raises:
        PulsarError.
        """

    @abstractmethod
    def close(self) -> None: ...


class TopicProducer(ABC):
    @abstractmethod
    def send_async(
        self,
        data: bytes,
        event_time: int | None,
        delay_ms: int | None,
        on_done: Callable[[str | None], None],
    ) -> None:
        """`on_done` is called with an error or None, by any thread."""

    @abstractmethod
    def close(self) -> None: ...


class PulsarConnection(ABC):
    """Raises: PulsarError, everywhere."""

    @abstractmethod
    def partitions(self, topic: str) -> list[str]:
        """Their names; of a topic without partitions its own."""

    @abstractmethod
    def topics(self, namespace: str) -> list[str]:
        """All of `tenant/namespace`, as `persistent://tenant/namespace/name`."""

    @abstractmethod
    def subscribe_at(self, partition: str, start: StartPosition, resets: bool) -> bool:
        """Make the subscription begin there where it is new, or `resets`. Returns: whether it may do so now."""

    @abstractmethod
    def last_message_id(self, partition: str) -> PulsarMessageId | None:
        """None: there is none."""

    @abstractmethod
    def subscribe(
        self, partition: str, ranges: tuple[tuple[int, int], ...], seek_to: PulsarMessageId | None
    ) -> Subscription:
        """Args:
        ranges: of hashes of keys; none: the subscription is this reader's alone.
        seek_to: give what is from there on; some before it may come, too.
        """

    @abstractmethod
    def produce(self, partition: str) -> TopicProducer: ...

    @abstractmethod
    def close(self) -> None: ...
