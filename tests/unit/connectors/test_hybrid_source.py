"""HybridSource reads its sources one after the other, exactly once, despite failures."""

from __future__ import annotations

import pytest
from connector_fakes import TestingReaderContext
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_source import SimulatedSource

from flinkpy.common.errors import InternalError
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.collection import CollectionSource
from flinkpy.connectors.datagen import DataGeneratorSource
from flinkpy.connectors.hybrid_events import HybridSplit, ReaderAt, SourceEntry, SwitchSource
from flinkpy.connectors.hybrid_source import HybridSource, HybridSourceReader
from flinkpy.connectors.number_sequence import NumberSequenceSource, NumberSequenceSplit, _NumberSequenceReader
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator
from flinkpy.datastream.connectors.hybrid_source import HybridSourceBuilder
from flinkpy.datastream.functions import SourceFunction

PAST = list(range(1, 8))
MIDDLE = list(range(100, 105))
NOW = list(range(1_000, 1_005))


def three() -> HybridSource:
    """Numbers, a collection in one split, numbers again."""
    builder = HybridSource.builder(NumberSequenceSource(PAST[0], PAST[-1]))
    builder.add_source(CollectionSource(MIDDLE, Types.LONG()))
    return builder.add_source(NumberSequenceSource(NOW[0], NOW[-1])).build()


def test_each_source_begins_when_all_readers_have_finished_the_previous_one():
    simulated = SimulatedSource(three())
    rows = simulated.run_to_end()

    assert sorted(rows) == PAST + MIDDLE + NOW
    for emitted in simulated.emitted:
        kinds = [0 if row < 100 else 1 if row < 1_000 else 2 for row in emitted]
        assert kinds == sorted(kinds)


def test_reader_waits_while_another_is_still_reading():
    simulated = SimulatedSource(three())
    for _ in range(30):
        simulated.step(0)
    # Subtask 0 has taken all splits but the one that subtask 1 asked for when it started.
    assert simulated.emitted[0]
    assert max(simulated.emitted[0]) < 100
    assert sorted(simulated.run_to_end()) == PAST + MIDDLE + NOW


actions = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "run", "run", "checkpoint", "complete", "fail", "fail_all"]), st.integers(0, 2)
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(actions, st.integers(1, 3))
def test_every_record_is_emitted_once_despite_failures(steps, parallelism):
    simulated = SimulatedSource(three(), parallelism)
    pending = None
    for action, number in steps:
        subtask = number % parallelism
        if action == "step":
            simulated.step(subtask)
        elif action == "run":
            for _ in range(4 * (number + 1)):
                simulated.step(0)
                simulated.step(parallelism - 1)
        elif action == "checkpoint":
            pending = simulated.checkpoint()
        elif action == "complete" and pending is not None:
            simulated.complete(pending)
            pending = None
        elif action == "fail":
            simulated.fail_subtask(subtask)
            pending = None
        elif action == "fail_all":
            simulated.fail_all()
            pending = None

    assert sorted(simulated.run_to_end()) == PAST + MIDDLE + NOW


#: The arguments of the factories, in the order of the calls. Global, because factories run in copies of the source.
MADE: list[int] = []


class Remembering(StaticSplitEnumerator):
    newest = PAST[-1]


class Past(NumberSequenceSource):
    def create_enumerator(self, context):
        return Remembering(context, lambda: self.split(context.parallelism))


def after_the_newest(context):
    MADE.append(context.get_previous_enumerator().newest)
    return NumberSequenceSource(MADE[-1] + 1, MADE[-1] + 3)


def no_source(context):
    return 5


def made_later(factory=after_the_newest) -> HybridSource:
    builder = HybridSource.builder(Past(PAST[0], PAST[-1]))
    return builder.add_source_factory(factory, Boundedness.BOUNDED).build()


def test_factory_creates_a_source_from_the_previous_enumerator():
    MADE.clear()
    rows = SimulatedSource(made_later()).run_to_end()

    assert sorted(rows) == [*PAST, 8, 9, 10]
    assert MADE == [7]


def test_checkpoints_contain_sources_from_factories():
    MADE.clear()
    simulated = SimulatedSource(made_later())
    while not MADE:
        for index in range(simulated.parallelism):
            simulated.step(index)
    simulated.complete(simulated.checkpoint())
    simulated.fail_all()

    assert sorted(simulated.run_to_end()) == [*PAST, 8, 9, 10]
    assert MADE == [7]


def test_factory_that_returns_no_source_fails_the_job():
    with pytest.raises(InternalError, match="the factory of source 1 of a hybrid source must return a source, not 5"):
        SimulatedSource(made_later(no_source)).run_to_end()


@pytest.mark.parametrize("names_splits", [True, False])
def test_splits_with_own_watermarks_hold_the_watermark_back(names_splits):
    class Reader(_NumberSequenceReader):
        pass

    class Numbers(NumberSequenceSource):
        def create_reader(self, context):
            return reader

    entries = tuple(SourceEntry(Numbers(1, 2), None, Boundedness.BOUNDED) for _ in range(2))
    context = TestingReaderContext()
    reader = Reader(context)
    reader.names_splits = names_splits
    hybrid = HybridSourceReader(context, entries)
    splits = [HybridSplit(index, NumberSequenceSplit("a", 1, 2)) for index in range(2)]
    assert [split.split_id for split in splits] == ["0:a", "1:a"]
    hybrid.add_splits(splits)
    hybrid.start()
    assert context.source_events == [ReaderAt(0)]
    hybrid.handle_source_event(SwitchSource(0, None, is_final=False))

    assert hybrid.names_splits
    assert context.finished_splits == ([] if names_splits else ["0:a"])
    assert hybrid.poll_batch().num_rows == 2
    assert hybrid.current_split_id == "0:a"


def test_only_the_last_source_may_be_unbounded():
    endless = DataGeneratorSource(lambda index: index)
    builder = HybridSource.builder(endless)

    assert builder.build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    with pytest.raises(ValueError, match="All sources except the final source need to be bounded"):
        builder.add_source(NumberSequenceSource(1, 2))
    assert three().boundedness is Boundedness.BOUNDED
    assert made_later().produced_type == Types.LONG()


def test_builder_refuses_invalid_sources():
    class Ticks(SourceFunction):
        pass

    with pytest.raises(TypeError, match="a SourceFunction cannot be part of a HybridSource"):
        HybridSource.builder(Ticks().to_source())
    with pytest.raises(TypeError, match="add_source takes a source, not 5"):
        HybridSource.builder(5)
    with pytest.raises(TypeError, match="add_source_factory takes a function that creates a source"):
        HybridSource.builder(NumberSequenceSource(1, 2)).add_source_factory(None)
    with pytest.raises(ValueError, match="The first source cannot be a factory"):
        HybridSourceBuilder().add_source_factory(after_the_newest)


def test_sources_before_the_last_are_a_backlog():
    simulated = SimulatedSource(three())
    assert simulated.context.backlogs == [True]
    simulated.run_to_end()
    assert simulated.context.backlogs == [True, False]

    simulated.coordinator.reset_to_checkpoint(None, None)
    assert simulated.context.backlogs == [True, False, True]
    only = SimulatedSource(HybridSource.builder(NumberSequenceSource(1, 3)).build())
    assert only.context.backlogs == []
