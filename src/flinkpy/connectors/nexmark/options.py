"""NexmarkOptions: which events are generated, how many, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.errors import ConfigurationError

#: Bounds of random numbers are below 2**31.
_MAX_BOUND = 1 << 31
#: Parts of the filler of this length leave room for many different ones.
_MAX_AVERAGE_SIZE = 1 << 18


@dataclass(frozen=True, slots=True)
class NexmarkOptions:
    """The options of a NexmarkSource, with the defaults of the Nexmark project.

    `flinkpy.table.connectors.nexmark` names the options of tables.

    Source: com.github.nexmark.flink.source.NexmarkSourceOptions, NexmarkConfiguration. Differs: `base_time_ms` can be
    set. Rates that change over time (`rate.shape`, `rate.period`) do not exist there either, beyond the option.
    """

    #: Events of event time per second, of all generators together.
    first_event_rate: int = 10_000
    #: Must be the same as `first_event_rate`.
    next_event_rate: int | None = None
    #: The number of events of all generators together; 0 for no end.
    num_events: int = 0
    #: The shares of persons, auctions and bids: the numbers of successive events of each kind.
    person_proportion: int = 1
    auction_proportion: int = 3
    bid_proportion: int = 46
    #: The `extra` fields fill events up to this average number of bytes.
    person_avg_size: int = 200
    auction_avg_size: int = 500
    bid_avg_size: int = 100
    #: One of this number of bids is for any auction; the others are for a hot one.
    hot_auction_ratio: int = 2
    #: One of this number of bids is by any person; the others are by a hot one.
    hot_bidders_ratio: int = 4
    #: One of this number of auctions is by any person; the others are by a hot one.
    hot_sellers_ratio: int = 4
    #: False to emit events when their event time has come.
    max_emit_speed: bool = True
    #: True if readers wait for their end after the last event, so that the job goes on.
    keep_alive: bool = False
    #: The number of events after which all generators together stop for the time being; None for no stop. A
    #: job that is restored from a savepoint of such a job without the option generates the remaining events.
    stop_at: int | None = None
    #: The event time of an event with number 0, in milliseconds; None: the time at which the job starts.
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
