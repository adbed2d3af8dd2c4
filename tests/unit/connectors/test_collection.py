from __future__ import annotations

import threading

import cloudpickle
import pytest
from connector_fakes import TestingCoordinatorContext, read_splits

from flinkpy.common.errors import FunctionSerializationError, TypeMismatchError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row, RowKind
from flinkpy.connectors.collection import CollectionSource, CollectionSplit


def read_all(source, max_batch_rows=1000):
    source = cloudpickle.loads(cloudpickle.dumps(source))
    return [row for batch in read_splits(source, [CollectionSplit()], max_batch_rows) for row in batch.values]


def test_elements_keep_their_order_in_batches_of_limited_size():
    elements = list(range(40_000))
    source = CollectionSource(elements)
    assert len(source) == 40_000
    batches = read_splits(source, [CollectionSplit()], max_batch_rows=7_000)
    assert [row for batch in batches for row in batch.values] == elements
    assert max(batch.num_rows for batch in batches) <= 7_000


def test_any_iterable_and_an_empty_one_are_collections():
    assert read_all(CollectionSource(iter("ab"))) == ["a", "b"]
    assert read_all(CollectionSource([])) == []


def test_objects_of_classes_defined_in_the_program_survive():
    class Mine:
        def __init__(self, value):
            self.value = value

    assert [item.value for item in read_all(CollectionSource([Mine(1), Mine(2)]))] == [1, 2]


def test_typed_elements_take_the_form_of_their_type():
    rows = read_all(CollectionSource([(1, "a"), (2, None)], Types.ROW([Types.INT(), Types.STRING()])))
    assert rows == [Row(1, "a"), Row(2, None)]
    assert read_all(CollectionSource([1 << 31], Types.INT())) == [-(1 << 31)]


def test_the_kind_of_a_typed_row_is_kept():
    rows = [Row.of_kind(RowKind.DELETE, 1), Row(2)]
    kinds = [row.get_row_kind() for row in read_all(CollectionSource(rows, Types.ROW([Types.INT()])))]
    assert kinds == [RowKind.DELETE, RowKind.INSERT]


def test_an_element_that_does_not_match_its_type_is_named():
    with pytest.raises(TypeMismatchError, match=r"record 1.*'x'"):
        CollectionSource([1, "x"], Types.LONG())


def test_error_counts_elements_from_the_start_of_the_collection():
    with pytest.raises(TypeMismatchError, match="counted from element 16384"):
        CollectionSource([*range(16_390), "x"], Types.LONG())


def test_an_element_that_cannot_be_pickled_is_named():
    with pytest.raises(FunctionSerializationError, match=r"element 1 of the collection \(lock\)"):
        CollectionSource([1, threading.Lock()])


def test_there_is_one_split():
    context = TestingCoordinatorContext()
    enumerator = CollectionSource([1]).create_enumerator(context)
    enumerator.start()
    assert enumerator.remaining == (CollectionSplit(),)
