"""NexmarkOptions: which events are generated, how many, and how fast."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.values import parse_boolean, parse_memory_bytes

#: Bounds of random numbers are below 2**31.
_MAX_BOUND = 1 << 31
#: Parts of the filler of this length leave room for many different ones.
_MAX_AVERAGE_SIZE = 1 << 18


@dataclass(frozen=True, slots=True)
class NexmarkOptions:
    """The options of a NexmarkSource, with the defaults of the Nexmark project.

    Source: com.github.nexmark.flink.source.NexmarkSourceOptions, NexmarkConfiguration. Differs: `base_time_ms` can be
    set. Rates that change over time (`rate.shape`, `rate.period`) do not exist there either, beyond the option.
    """

    #: `first-event.rate`: events of event time per second, of all generators together.
    first_event_rate: int = 10_000
    #: `next-event.rate`: must be the same as `first_event_rate`.
    next_event_rate: int | None = None
    #: `events.num`: the number of events of all generators together; 0 for no end.
    num_events: int = 0
    #: `person.proportion`, `auction.proportion`, `bid.proportion`: how many of so many events are persons, etc.
    person_proportion: int = 1
    auction_proportion: int = 3
    bid_proportion: int = 46
    #: `person.avg-size` etc.: the `extra` fields fill events up to this average number of bytes.
    person_avg_size: int = 200
    auction_avg_size: int = 500
    bid_avg_size: int = 100
    #: `bid.hot-ratio.auctions`: all but one of so many bids are for a hot auction.
    hot_auction_ratio: int = 2
    #: `bid.hot-ratio.bidders`: all but one of so many bids are by a hot bidder.
    hot_bidders_ratio: int = 4
    #: `auction.hot-ratio.sellers`: all but one of so many auctions are by a hot seller.
    hot_sellers_ratio: int = 4
    #: `max-emit-speed`: False to emit events when their event time has come.
    max_emit_speed: bool = True
    #: `keep-alive`: True if readers wait for their end after the last event, so that the job goes on.
    keep_alive: bool = False
    #: `stop-at`: the number of events after which all generators together stop for the time being; None for no stop. A
    #: job that is restored from a savepoint of such a job without the option generates the remaining events.
    stop_at: int | None = None
    #: `base-time`: the event time of an event with number 0, in milliseconds; None: the time at which the job starts.
    base_time_ms: int | None = None

    def __post_init__(self) -> None:
        positive = [
            "first_event_rate",
            "person_proportion",
            "auction_proportion",
            "bid_proportion",
            "hot_auction_ratio",
            "hot_bidders_ratio",
            "hot_sellers_ratio",
        ]
        for name in positive:
            if not 0 < getattr(self, name) < _MAX_BOUND:
                raise ConfigurationError(f"Nexmark: {name} must be from 1 to 2**31 - 1, not {getattr(self, name)!r}")
        for name in ("person_avg_size", "auction_avg_size", "bid_avg_size"):
            if not 0 <= getattr(self, name) <= _MAX_AVERAGE_SIZE:
                raise ConfigurationError(
                    f"Nexmark: {name} must be from 0 to {_MAX_AVERAGE_SIZE} bytes, not {getattr(self, name)!r}"
                )
        if self.num_events < 0:
            raise ConfigurationError(f"Nexmark: num_events must not be negative, not {self.num_events}")
        if self.stop_at is not None and self.stop_at < 0:
            raise ConfigurationError(f"Nexmark: stop_at must not be negative, not {self.stop_at}; None for no stop")
        if self.next_event_rate not in (None, self.first_event_rate):
            raise ConfigurationError(
                f"Nexmark: next_event_rate={self.next_event_rate} differs from first_event_rate="
                f"{self.first_event_rate}; the generator has one rate only, so leave it out"
            )

    @property
    def total_proportion(self) -> int:
        return self.person_proportion + self.auction_proportion + self.bid_proportion

    @property
    def max_events(self) -> int:
        """The number of events; without an end a number at which nothing overflows."""
        largest = max(self.person_avg_size, self.auction_avg_size, self.bid_avg_size, 1)
        return self.num_events or (1 << 63) // (self.total_proportion * largest)

    @classmethod
    def of(cls, options: dict[str, str]) -> NexmarkOptions:
        """Returns the options of a table, whose keys and values are those of its WITH clause, without `connector`.

        Raises:
            ConfigurationError: for an unknown key, with the list of all keys, or a value that cannot be read.
        """
        unknown = sorted(set(options) - set(_KEYS))
        if unknown:
            raise ConfigurationError(
                f"the connector nexmark has no option {', '.join(unknown)}; there are {', '.join(sorted(_KEYS))}"
            )
        values: dict[str, Any] = {}
        for key, text in options.items():
            name, parse = _KEYS[key]
            try:
                values[name] = parse(text)
            except ValueError as error:
                raise ConfigurationError(
                    f"the option {key} of the connector nexmark cannot be {text!r}: {error}"
                ) from None
        return cls(**values)


def _stop(text: str) -> int | None:
    return None if int(text) < 0 else int(text)


_KEYS: dict[str, tuple[str, Any]] = {
    "first-event.rate": ("first_event_rate", int),
    "next-event.rate": ("next_event_rate", int),
    "events.num": ("num_events", int),
    "person.proportion": ("person_proportion", int),
    "auction.proportion": ("auction_proportion", int),
    "bid.proportion": ("bid_proportion", int),
    "person.avg-size": ("person_avg_size", parse_memory_bytes),
    "auction.avg-size": ("auction_avg_size", parse_memory_bytes),
    "bid.avg-size": ("bid_avg_size", parse_memory_bytes),
    "bid.hot-ratio.auctions": ("hot_auction_ratio", int),
    "bid.hot-ratio.bidders": ("hot_bidders_ratio", int),
    "auction.hot-ratio.sellers": ("hot_sellers_ratio", int),
    "max-emit-speed": ("max_emit_speed", parse_boolean),
    "keep-alive": ("keep_alive", parse_boolean),
    "stop-at": ("stop_at", _stop),
    "base-time": ("base_time_ms", int),
}
assert {name for name, _ in _KEYS.values()} == {field.name for field in fields(NexmarkOptions)}
