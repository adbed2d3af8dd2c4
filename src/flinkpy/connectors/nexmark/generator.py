"""EventGenerator: makes Nexmark's events in columns, and only those columns that are asked for.

Events have successive numbers, and ids that grow with them. The remainder of the id decides whether an event is a
person, an auction or a bid, and its time grows evenly with its number. All other fields are random (`draws`).

Source: com.github.nexmark.flink.generator.{NexmarkGenerator,GeneratorConfig} and its `model` package. Differs: there
the random numbers have no seed, so that no two runs have the same texts, prices and choices; here they are functions of
the event's id. Their distributions are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import ConfigurationError
from flinkpy.connectors.nexmark import texts
from flinkpy.connectors.nexmark.draws import Array, Draws
from flinkpy.connectors.nexmark.options import NexmarkOptions
from flinkpy.connectors.nexmark.schema import ALL_TYPES, EVENT_TYPE, FIELDS, EventType, Path, arrow_schema

#: Ids begin here, so that small data has matches of joins too.
FIRST_PERSON_ID = 1000
FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID = 10
CATEGORIES = 5
#: Events refer to at most this many persons and auctions that do not exist yet.
ID_LEAD = 10
#: Every 100th person and auction is hot.
HOT_STRIDE = 100
#: Events refer to this many of the last auctions and persons.
IN_FLIGHT_AUCTIONS = 100
ACTIVE_PEOPLE = 1000
#: One of two bids comes through a hot channel.
HOT_CHANNELS_RATIO = 2
#: The number of the first event of every generator.
FIRST_NUMBER = 1
#: Sizes of events without their texts, in bytes.
_PERSON_SIZE = 8
_AUCTION_SIZE = 48
_BID_SIZE = 32
_EXTRA_SPREAD = 0.2
#: The longest auction, in milliseconds: random numbers have 31 bits.
_MAX_AUCTION_MS = 1 << 31


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events of one generator. Several generators have the same times, and ids of their own.

    Attributes:
        first_event_id: the id of an event with number 0.
        generators: the number of generators, which share the rate.
        base_time_ms: the event time of an event with number 0.
    """

    first_event_id: int
    generators: int
    base_time_ms: int


class EventGenerator:
    """Makes the events of a timeline. Thread: any, one at a time.

    Args:
        options: the options of the source.
        timeline: whose events.
        paths: the columns.
        event_types: the kinds of events; others are left out.
        names: the names of the columns; None for names like `bid_price`.

    Raises:
        ConfigurationError: if auctions would last too long at this rate.
    """

    def __init__(
        self,
        options: NexmarkOptions,
        timeline: Timeline,
        paths: tuple[Path, ...],
        event_types: frozenset[EventType] = ALL_TYPES,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.options = options
        self.timeline = timeline
        self.schema = arrow_schema(paths, names)
        self._paths = paths
        self._types = event_types
        self._is_wanted = np.array([kind in event_types for kind in EventType])
        self._delay_us = 1_000_000.0 / options.first_event_rate * timeline.generators
        events_of_auctions = IN_FLIGHT_AUCTIONS * options.total_proportion // options.auction_proportion
        if events_of_auctions * self._delay_us / 1000 * 2 >= _MAX_AUCTION_MS:
            raise ConfigurationError(
                f"Nexmark: with first-event.rate={options.first_event_rate} and auction.proportion="
                f"{options.auction_proportion} auctions last longer than {_MAX_AUCTION_MS} ms; raise one of them"
            )
        self._events_of_auctions = events_of_auctions

    def time_of(self, numbers: Array) -> Array:
        """Returns int64[n], the event times in milliseconds."""
        return self.timeline.base_time_ms + (numbers * self._delay_us).astype(np.int64) // 1000

    def number_at(self, time_ms: int) -> int:
        """Returns the number of the first event that is later than `time_ms`."""
        number = max(0, int((time_ms - self.timeline.base_time_ms) * 1000 / self._delay_us) - 1)
        while int(self.time_of(np.array([number]))[0]) <= time_ms:
            number += 1
        return number

    def events_for(self, rows: int) -> int:
        """Returns a number of successive events of which about `rows` are of the wanted kinds."""
        if self._types == ALL_TYPES:
            return rows
        options = self.options
        share = {
            EventType.PERSON: options.person_proportion,
            EventType.AUCTION: options.auction_proportion,
            EventType.BID: options.bid_proportion,
        }
        wanted = sum(share[kind] for kind in self._types)
        return max(1, rows * options.total_proportion // wanted) if wanted else rows

    def batch(self, first_number: int, count: int) -> tuple[pa.RecordBatch, Array]:
        """Returns the events from `first_number` on: `RecordBatch[n rows, schema]`, and the number of each.

        There are less than `count` rows if kinds of events are left out.
        """
        numbers = np.arange(count, dtype=np.int64) + first_number
        ids = numbers + self.timeline.first_event_id
        rests = ids % self.options.total_proportion
        auctions_from = self.options.person_proportion
        kinds = (rests >= auctions_from).astype(np.int32)
        kinds += rests >= auctions_from + self.options.auction_proportion
        if self._types != ALL_TYPES:
            kept = np.flatnonzero(self._is_wanted[kinds])
            numbers, ids, kinds = numbers[kept], ids[kept], kinds[kept]
        rows = _Rows(self, numbers, ids, kinds)
        columns = [rows.column(path) for path in self._paths]
        if not columns:
            return pa.RecordBatch.from_struct_array(
                pa.StructArray.from_buffers(pa.struct([]), len(numbers), [None])
            ), numbers
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), numbers


class _Rows:
    """The rows of one batch. Columns of different kinds share what they can."""

    def __init__(self, generator: EventGenerator, numbers: Array, ids: Array, kinds: Array) -> None:
        self._generator = generator
        self._numbers = numbers
        self._ids = ids
        self._kinds = kinds
        self._times = pa.array(generator.time_of(numbers).view("M8[ms]"))
        self._parts: dict[EventType, _Part] = {}

    def column(self, path: Path) -> pa.Array:
        if path == (EVENT_TYPE,):
            return pa.array(self._kinds)
        part = self._part(EventType[path[0].upper()])
        if len(path) == 2:
            return part.nullable(part.field(path[1], self._times))
        children = [part.field(name, self._times) for name in FIELDS[path[0]]]
        mask = None if part.is_all else pa.array(~part.mask)
        return pa.StructArray.from_arrays(children, names=list(FIELDS[path[0]]), mask=mask)

    def _part(self, kind: EventType) -> _Part:
        part = self._parts.get(kind)
        if part is None:
            mask = self._kinds == kind
            rows = np.flatnonzero(mask)
            is_all = len(rows) == len(mask)
            numbers, ids = (self._numbers, self._ids) if is_all else (self._numbers[rows], self._ids[rows])
            part = self._parts[kind] = _PARTS[kind](self._generator, numbers, ids, rows, mask, is_all)
        return part


class _Part:
    """The events of one kind among the rows of a batch."""

    #: The functions that make fields. The result has one value per event of this kind.
    makers: ClassVar[dict[str, Callable[[Any], Any]]]

    def __init__(
        self, generator: EventGenerator, numbers: Array, ids: Array, rows: Array, mask: Array, is_all: bool
    ) -> None:
        self.options = generator.options
        self.generator = generator
        self.numbers = numbers
        self.ids = ids
        self.draws = Draws(ids)
        #: The number of rounds of persons, auctions and bids before each event, and its place in its round.
        self.rounds, self.places = np.divmod(ids, self.options.total_proportion)
        self.mask = mask
        self.is_all = is_all
        self._rows = rows
        self._made: dict[str, Any] = {}

    def made(self, name: str) -> Any:
        """Returns a field of the events of this kind, which is made once."""
        value = self._made.get(name)
        if value is None:
            value = self._made[name] = self.makers[name](self)
        return value

    def field(self, name: str, times: pa.Array) -> pa.Array:
        """Returns a field, with arbitrary values that are not null at events of other kinds."""
        if name == "dateTime":
            return times
        value = self.made(name)
        if self.is_all:
            return pa.array(value) if isinstance(value, np.ndarray) else value
        if isinstance(value, np.ndarray):
            spread = np.zeros(len(self.mask), dtype=value.dtype)
            spread[self._rows] = value
            return pa.array(spread)
        lengths = np.zeros(len(self.mask), dtype=np.int32)
        offsets = _offsets(value)
        lengths[self._rows] = offsets[1:] - offsets[:-1]
        return texts.array_of(texts.offsets_of(lengths), value.buffers()[2] or b"")

    def nullable(self, values: pa.Array) -> pa.Array:
        """Returns the values with null at events of other kinds."""
        if self.is_all:
            return values
        valid = pa.py_buffer(np.packbits(self.mask, bitorder="little"))
        return pa.Array.from_buffers(values.type, len(values), [valid, *values.buffers()[1:]])

    def last_person(self) -> Array:
        """Returns the number of the last person before each event, or of the event itself."""
        persons = self.options.person_proportion
        if persons == 1:
            return self.rounds
        return self.rounds * persons + np.minimum(self.places, persons - 1)

    def some_person(self, draw: int) -> Array:
        """Returns the numbers of random persons: active ones, and few that do not exist yet."""
        people = self.last_person() + 1
        active = np.minimum(people, ACTIVE_PEOPLE)
        return people - active + self.draws.high(draw, active + ID_LEAD)

    def extra(self, draw: int, size: int | Array, average: int) -> pa.StringArray:
        """Returns texts that make events of `size` bytes as long as `average` bytes, on average."""
        gap = np.broadcast_to(np.asarray(average - size), (len(self.draws),))
        spread = np.floor(gap * _EXTRA_SPREAD + 0.5).astype(np.int64)
        lengths = gap - spread + self.draws.low(draw, np.maximum(2 * spread, 0))
        lengths = np.where(gap < 0, 0, lengths)
        starts = self.draws.high(draw, texts.FILLER_LENGTH - 2 * average)
        return texts.parts_of_filler(starts, lengths)


def _offsets(array: pa.StringArray) -> Array:
    return np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]


class _Persons(_Part):
    def id(self) -> Array:
        return self.last_person() + FIRST_PERSON_ID

    def name(self) -> pa.StringArray:
        first = self.draws.low(0, len(texts.FIRST_NAMES))
        return texts.take(texts.full_names(), first * len(texts.LAST_NAMES) + self.draws.high(0, len(texts.LAST_NAMES)))

    def email_address(self) -> pa.StringArray:
        draws = self.draws
        user = texts.random_words(draws, 8, texts.MIN_WORD_LENGTH + draws.low(1, 4), 6, " ")
        host = texts.random_words(draws, 10, texts.MIN_WORD_LENGTH + draws.high(1, 2), 4, " ")
        return texts.joined(user, "@", host, ".com")

    def credit_card(self) -> pa.StringArray:
        draws = self.draws
        groups = [draws.low(2, 10_000), draws.high(2, 10_000), draws.low(3, 10_000), draws.high(3, 10_000)]
        first, *others = (texts.take(texts.four_digits(), group) for group in groups)
        return texts.joined(first, *(part for other in others for part in (" ", other)))

    def city(self) -> pa.StringArray:
        return texts.take(texts.CITIES, self.draws.low(4, len(texts.CITIES)))

    def state(self) -> pa.StringArray:
        return texts.take(texts.STATES, self.draws.high(4, len(texts.STATES)))

    def filled(self) -> pa.StringArray:
        size = np.full(len(self.draws), _PERSON_SIZE, dtype=np.int64)
        for name in ("name", "emailAddress", "creditCard", "city", "state"):
            size += np.diff(_offsets(self.made(name)))
        return self.extra(5, size, self.options.person_avg_size)

    makers: ClassVar = {
        "id": id,
        "name": name,
        "emailAddress": email_address,
        "creditCard": credit_card,
        "city": city,
        "state": state,
        "extra": filled,
    }


class _Auctions(_Part):
    def id(self) -> Array:
        options = self.options
        return self.rounds * options.auction_proportion + self.places + (FIRST_AUCTION_ID - options.person_proportion)

    def item_name(self) -> pa.StringArray:
        return texts.random_words(self.draws, 8, texts.MIN_WORD_LENGTH + self.draws.low(5, 17), 19, " ")

    def description(self) -> pa.StringArray:
        return texts.random_words(self.draws, 16, texts.MIN_WORD_LENGTH + self.draws.high(5, 97), 99, " ")

    def initial_bid(self) -> Array:
        return self.draws.price(2)

    def reserve(self) -> Array:
        return self.made("initialBid") + self.draws.price(4)

    def expires(self) -> Array:
        generator = self.generator
        times = generator.time_of(self.numbers)
        horizon = generator.time_of(self.numbers + generator._events_of_auctions) - times
        return (times + 1 + self.draws.low(3, np.maximum(2 * horizon, 1))).view("M8[ms]")

    def seller(self) -> Array:
        is_hot = self.draws.low(0, self.options.hot_sellers_ratio) > 0
        hot = self.last_person() // HOT_STRIDE * HOT_STRIDE
        return np.where(is_hot, hot, self.some_person(0)) + FIRST_PERSON_ID

    def category(self) -> Array:
        return self.draws.low(1, CATEGORIES) + FIRST_CATEGORY_ID

    def filled(self) -> pa.StringArray:
        size = np.full(len(self.draws), _AUCTION_SIZE, dtype=np.int64)
        for name in ("itemName", "description"):
            size += np.diff(_offsets(self.made(name)))
        return self.extra(6, size, self.options.auction_avg_size)

    makers: ClassVar = {
        "id": id,
        "itemName": item_name,
        "description": description,
        "initialBid": initial_bid,
        "reserve": reserve,
        "expires": expires,
        "seller": seller,
        "category": category,
        "extra": filled,
    }


class _Bids(_Part):
    def auction(self) -> Array:
        options = self.options
        last = self.rounds * options.auction_proportion + (options.auction_proportion - 1)
        first = np.maximum(last - IN_FLIGHT_AUCTIONS, 0)
        some = first + self.draws.high(0, last - first + 1 + ID_LEAD)
        is_hot = self.draws.low(0, options.hot_auction_ratio) > 0
        return np.where(is_hot, last // HOT_STRIDE * HOT_STRIDE, some) + FIRST_AUCTION_ID

    def bidder(self) -> Array:
        """Returns the persons after the hot sellers if they are hot. The first id is added twice, as in Nexmark."""
        is_hot = self.draws.low(1, self.options.hot_bidders_ratio) > 0
        hot = self.last_person() // HOT_STRIDE * HOT_STRIDE + 1
        return np.where(is_hot, hot, self.some_person(1)) + 2 * FIRST_PERSON_ID

    def price(self) -> Array:
        return self.draws.price(2)

    def _channels(self) -> Array:
        """Returns the indices of the channels."""
        is_hot = self.draws.low(3, HOT_CHANNELS_RATIO) > 0
        hot = len(texts.HOT_CHANNELS)
        return np.where(is_hot, self.draws.high(3, hot), hot + self.draws.high(3, texts.CHANNELS))

    def channel(self) -> pa.StringArray:
        return texts.take(texts.channels()[0], self.made("channels"))

    def url(self) -> pa.StringArray:
        return texts.take(texts.channels()[1], self.made("channels"))

    def filled(self) -> pa.StringArray:
        return self.extra(4, _BID_SIZE, self.options.bid_avg_size)

    makers: ClassVar = {
        "auction": auction,
        "bidder": bidder,
        "price": price,
        "channels": _channels,
        "channel": channel,
        "url": url,
        "extra": filled,
    }


_PARTS: dict[EventType, type[_Part]] = {
    EventType.PERSON: _Persons,
    EventType.AUCTION: _Auctions,
    EventType.BID: _Bids,
}
