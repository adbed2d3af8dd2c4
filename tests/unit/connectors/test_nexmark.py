"""The events of Nexmark: recorded vectors, every way to leave out columns and kinds, splits, restores and options."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from connector_fakes import TestingReaderContext, read_splits
from reading import check_every_batch_boundary

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.connector_api.source import Boundedness, ReaderStatus
from flinkpy.connectors.nexmark import EventType, NexmarkOptions, NexmarkSource, texts
from flinkpy.connectors.nexmark.draws import Draws, price_tables
from flinkpy.connectors.nexmark.schema import FIELDS
from flinkpy.expressions.nodes import col

BASE_TIME_MS = 1_436_918_400_000
OPTIONS = NexmarkOptions(num_events=1000, first_event_rate=1000, base_time_ms=BASE_TIME_MS)

RECORDED_WORDS = [9672475392221035855, 5573481420429128725, 17358316652931856208]
RECORDED_PRICE_BOUNDS = (100, 99952602)
#: The generator of benchmarks/nexmark/java makes the same events.
RECORDED_DIGESTS = {
    "event_type": "60cf3291c5ffdda8",
    "person": "28212130aa8d8b60",
    "auction": "f97560f5ed7a2320",
    "bid": "165a3f34915d7225",
}
RECORDED_PERSON = {
    "event_type": 0,
    "person": {
        "id": 1001,
        "name": "Peter Noris",
        "emailAddress": "tkm@kopw.com",
        "creditCard": "3808 7225 3672 7881",
        "city": "Kent",
        "state": "WA",
        "dateTime": datetime(2015, 7, 15, 0, 0, 0, 98_000),
        "extra": r"RMR`htnucmwifexkIYKLK[YHPSZLbzvkfpocvovvTVO`HZtelmlqjqqrgwuljvltHXI]LOxjrnynXOWM]Ipmajtthoiyul]"
        r"IIQNQkmmazpcayzsw_XLJaIpkckpd]XZUPJ^K[W\NdjmajkYV",
    },
    "auction": None,
    "bid": None,
}


def table_of(source: NexmarkSource, generators: int = 2, rows: int = 4096) -> pa.Table:
    batches = read_splits(source, source.split_list(generators), max_batch_rows=rows)
    return pa.Table.from_batches([batch.values for batch in batches])


def digest(values) -> str:
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()[:16]


def test_numbers_are_those_of_javas_splittable_random():
    # new SplittableRandom(mix64(7)).nextLong(), three times.
    draws = Draws(np.array([7]))
    assert [int(draws.word(i)[0]) for i in range(3)] == RECORDED_WORDS


def test_prices_are_uniform_in_their_logarithm_from_one_dollar_to_a_million():
    prices = Draws(np.arange(100_000)).price(0)
    assert (prices.min(), prices.max()) == RECORDED_PRICE_BOUNDS
    share_below = [(prices < 10**exponent).mean() for exponent in (3, 4, 5, 6, 7)]
    assert share_below == pytest.approx([exponent / 6 for exponent in range(1, 6)], abs=0.01)
    assert float(price_tables()[0][-1] * price_tables()[1][-1] * price_tables()[2][-1]) == pytest.approx(1e6)


def test_events_are_the_recorded_ones():
    table = table_of(NexmarkSource(OPTIONS))
    assert {name: digest(table[name].to_pylist()) for name in table.column_names} == RECORDED_DIGESTS
    assert table.slice(48, 1).to_pylist() == [RECORDED_PERSON]


def test_one_person_three_auctions_and_46_bids_take_turns():
    kinds = table_of(NexmarkSource(OPTIONS), generators=1)["event_type"].to_pylist()
    assert kinds[:10] == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert kinds[48:53] == [0, 1, 1, 1, 2]
    assert Counter(kinds) == {0: 20, 1: 60, 2: 920}


def test_other_kinds_of_events_are_null():
    table = table_of(NexmarkSource(OPTIONS))
    for kind in EventType:
        is_kind = pc.equal(table["event_type"], int(kind))
        assert pc.is_valid(table[kind.name.lower()]).equals(is_kind)


def test_every_field_alone_equals_that_of_all_columns():
    whole = table_of(NexmarkSource(OPTIONS))
    source = NexmarkSource(OPTIONS)
    for column, fields in FIELDS.items():
        for name in fields:
            alone = table_of(source.with_fields([(column, name)]))
            assert alone.column_names == [f"{column}_{name}"]
            assert alone[0].combine_chunks().equals(pc.struct_field(whole[column], name).combine_chunks())


@pytest.mark.parametrize("kinds", [{0}, {1}, {2}, {0, 2}, {0, 1, 2}])
def test_leaving_out_kinds_of_events_changes_no_other_event(kinds):
    whole = table_of(NexmarkSource(OPTIONS))
    kept = whole.filter(pc.is_in(whole["event_type"], pa.array(sorted(kinds), pa.int32())))
    assert table_of(NexmarkSource(OPTIONS).with_event_types(kinds), rows=50).equals(kept)


def test_no_kind_of_event_gives_no_row_but_ends():
    assert read_splits(NexmarkSource(OPTIONS).with_event_types(()), NexmarkSource(OPTIONS).split_list(2)) == []


def test_filter_keeps_the_kinds_that_its_condition_allows():
    source = NexmarkSource(OPTIONS)
    kind = col("event_type")
    assert source.filtered_by(kind == 2).event_types == {EventType.BID}
    assert source.filtered_by((kind == 2) & (col("bid") == 1)).event_types == {EventType.BID}
    assert source.filtered_by((kind == 0) | (kind == 1)).event_types == {EventType.PERSON, EventType.AUCTION}
    assert source.filtered_by(kind.in_(0, 2)).event_types == {EventType.PERSON, EventType.BID}
    assert source.filtered_by(kind > 1) is None
    assert source.filtered_by((kind == 0) | (col("bid") == 1)) is None


def test_projection_keeps_the_given_columns_in_their_order():
    projected = NexmarkSource(OPTIONS).projected_to(["bid", "event_type"])
    assert table_of(projected).equals(table_of(NexmarkSource(OPTIONS)).select(["bid", "event_type"]))
    assert projected.produced_type.row_type.names == ("bid", "event_type")


def test_unknown_field_is_refused():
    with pytest.raises(UnsupportedOperationError, match=r"no field bid\.prise"):
        NexmarkSource().with_fields([("bid", "prise")])


def test_generators_share_events_and_have_the_same_times():
    source = NexmarkSource(NexmarkOptions(num_events=101, first_event_rate=1000, base_time_ms=BASE_TIME_MS))
    splits = source.split_list(2)
    assert [(split.first_event_id, split.max_events) for split in splits] == [(1, 50), (51, 51)]
    both = source.with_fields([("person", "dateTime"), ("auction", "dateTime"), ("bid", "dateTime")])
    first, second = ([pc.coalesce(*table.columns).to_pylist()] for table in (one(both, split) for split in splits))
    assert first[0] == second[0][:50]
    # Two generators share a rate of one event per millisecond.
    assert [moment.microsecond // 1000 for moment in first[0][:3]] == [2, 4, 6]


def one(source, split) -> pa.Table:
    return pa.Table.from_batches([batch.values for batch in read_splits(source, [split])])


@pytest.mark.parametrize("kinds", [set(EventType), {EventType.AUCTION}])
def test_restored_reader_continues_after_the_last_event(kinds):
    source = NexmarkSource(NexmarkOptions(num_events=120, base_time_ms=0)).with_event_types(kinds)
    check_every_batch_boundary(source, source.split_list(2), 3 if len(kinds) == 1 else 31)


class Assignments:
    """Records what an enumerator assigns."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.calls: list = []

    def assign_splits(self, assignment):
        self.calls += [(subtask, [split.index for split in splits]) for subtask, splits in assignment.items()]

    def signal_no_more_splits(self, subtask_index):
        self.calls.append((subtask_index, "no more"))


def test_every_reader_gets_its_own_generator_however_late_others_start():
    context = Assignments(2)
    enumerator = NexmarkSource(OPTIONS).create_enumerator(context)
    enumerator.start()
    enumerator.handle_split_request(1)
    enumerator.handle_split_request(1)
    assert context.calls == [(1, [1]), (1, "no more"), (1, "no more")]
    restored = Assignments(1)
    state = enumerator.snapshot_state(1)
    NexmarkSource(OPTIONS).restore_enumerator(restored, state).handle_split_request(0)
    assert restored.calls == [(0, [0]), (0, "no more")]
    enumerator.add_splits_back([NexmarkSource(OPTIONS).split_list(2)[1]], 1)
    enumerator.handle_split_request(1)
    assert context.calls[3:] == [(1, [1]), (1, "no more")]


def test_readers_stop_at_a_number_of_events_and_continue_later():
    whole = table_of(NexmarkSource(OPTIONS), generators=2)
    stopped = NexmarkSource(
        NexmarkOptions(1000, num_events=1000, stop_at=300, keep_alive=True, base_time_ms=BASE_TIME_MS)
    )
    tables, left = [], []
    for split in stopped.split_list(2):
        reader = stopped.create_reader(TestingReaderContext(max_batch_rows=4096))
        reader.add_splits([split])
        reader.notify_no_more_splits()
        tables.append(reader.poll_batch().values)
        assert reader.poll_batch() is ReaderStatus.NOTHING_AVAILABLE
        left += reader.snapshot_state(1)
    assert [batch.num_rows for batch in tables] == [150, 150]
    rests = [one(NexmarkSource(OPTIONS), split) for split in left]
    first, second = (pa.concat_tables([pa.Table.from_batches([begun]), rest]) for begun, rest in zip(tables, rests))
    assert pa.concat_tables([first, second]).equals(whole)


def test_limited_reader_emits_events_when_their_time_has_come():
    options = NexmarkOptions(1000, num_events=100, base_time_ms=BASE_TIME_MS, max_emit_speed=False)
    source = NexmarkSource(options).with_event_types({EventType.BID})
    context = TestingReaderContext(max_batch_rows=4096)
    reader = source.create_reader(context)
    reader.add_splits(source.split_list(1))
    reader.notify_no_more_splits()
    context.now_ns = 0
    # The first event is an auction.
    assert reader.poll_batch() is ReaderStatus.NOTHING_AVAILABLE
    assert len(context.timers) == 1
    context.now_ns = 9_000_000
    assert reader.poll_batch().num_rows == 8
    assert reader.poll_batch() is ReaderStatus.NOTHING_AVAILABLE
    context.now_ns = 99_000_000
    assert reader.poll_batch().num_rows == 84
    assert reader.poll_batch() is ReaderStatus.END_OF_INPUT


def test_source_ends_if_the_number_of_events_is_given_and_it_is_not_kept_alive():
    bounded = [NexmarkOptions(num_events=5), NexmarkOptions(stop_at=5)]
    unbounded = [NexmarkOptions(), NexmarkOptions(num_events=5, keep_alive=True)]
    assert {NexmarkSource(options).boundedness for options in bounded} == {Boundedness.BOUNDED}
    assert {NexmarkSource(options).boundedness for options in unbounded} == {Boundedness.CONTINUOUS_UNBOUNDED}


def test_channels_have_urls_and_most_have_an_id_in_them():
    names, urls = (column.to_pylist() for column in texts.channels())
    assert names[:5] == ["Google", "Facebook", "Baidu", "Apple", "channel-0"]
    assert not any("channel_id" in url for url in urls[:4])
    assert 8_800 < sum("channel_id" in url for url in urls) < 9_200
    # Java's Math.abs(Integer.reverse(1)) is the lowest int.
    assert {int(url.rpartition("=")[2]) for url in urls[4:8] if "channel_id" in url} <= {
        0,
        -(1 << 31),
        1 << 30,
        1 << 30 | 1 << 31,
    }


def test_parts_of_the_filler_are_the_same_with_and_without_views_of_strings(monkeypatch):
    starts, lengths = np.array([0, 5, 1000]), np.array([20, 13, 40])
    fast = texts.parts_of_filler(starts, lengths)
    monkeypatch.setattr(texts, "_casts_views", lambda: False)
    slow = texts.parts_of_filler(starts, lengths)
    assert fast.equals(slow)
    assert slow.to_pylist() == [texts.filler()[s : s + n].tobytes().decode() for s, n in zip(starts, lengths)]
    assert texts.parts_of_filler(starts, np.array([0, 2, 0])).to_pylist() == ["", slow[1].as_py()[:2], ""]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_events": -1}, "num_events must not be negative"),
        ({"stop_at": -1}, "stop_at must not be negative"),
        ({"bid_proportion": 0}, "bid_proportion must be from 1"),
        ({"next_event_rate": 5}, "the generator has one rate only"),
        ({"bid_avg_size": 1 << 20}, "bid_avg_size must be from 0 to 262144 bytes"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        NexmarkOptions(**options)


def test_auctions_that_last_too_long_are_refused():
    source = NexmarkSource(NexmarkOptions(1, num_events=10, auction_proportion=1, bid_proportion=100_000))
    with pytest.raises(ConfigurationError, match=r"auctions last longer than 2147483648 ms; raise one of them"):
        table_of(source)
