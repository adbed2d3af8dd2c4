from __future__ import annotations

from decimal import Decimal

import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.errors import StateMigrationError, StateRestoreError
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flinkpy.state.heap_backend import HeapKeyedStateBackend
from flinkpy.state.operator_state import OperatorStateBackend

PERSON = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


@pytest.fixture
def files():
    return MemoryStreams()


def written(files, descriptor, value, key_type=None):
    """A handle of a state with one key, "a"."""
    backend = HeapKeyedStateBackend(parameters(key_type=key_type))
    fill(backend, descriptor, value)
    return backend.snapshot(1, OPTIONS).write(files)


def fill(backend, descriptor, value):
    backend.key_context.key = "a"
    if isinstance(descriptor, MapStateDescriptor):
        backend.map_state(descriptor).put_all(value)
    elif isinstance(descriptor, ListStateDescriptor):
        backend.list_state(descriptor).update(value)
    else:
        backend.value_state(descriptor).update(value)


def read(files, handle, descriptor, key_type=None):
    backend = HeapKeyedStateBackend(parameters(handle, files=files, key_type=key_type))
    backend.key_context.key = "a"
    if isinstance(descriptor, MapStateDescriptor):
        return dict(backend.map_state(descriptor).items())
    if isinstance(descriptor, ListStateDescriptor):
        return backend.list_state(descriptor).get()
    return backend.value_state(descriptor).value()


def evolved(files, old_type, value, new_type, renamed=None, defaults=None):
    handle = written(files, ValueStateDescriptor("s", old_type), value)
    descriptor = ValueStateDescriptor("s", new_type)
    descriptor.with_renamed_fields(renamed or {}).with_field_defaults(defaults or {})
    return read(files, handle, descriptor)


def test_fields_are_added_removed_and_reordered(files):
    new = Types.ROW_NAMED(["email", "id"], [Types.STRING(), Types.INT()])
    assert evolved(files, PERSON, Row(id=1, name="Ann"), new) == Row(email=None, id=1)
    assert evolved(files, PERSON, Row(1, "Ann"), new) == Row(None, 1)
    assert evolved(files, PERSON, (1, "Ann"), new) == (None, 1)
    assert evolved(files, PERSON, {"id": 1, "name": "Ann"}, new) == {"email": None, "id": 1}


def test_an_added_field_has_its_default(files):
    new = Types.ROW_NAMED(["id", "name", "visits"], [Types.INT(), Types.STRING(), Types.INT()])
    assert evolved(files, PERSON, Row(id=1, name="Ann"), new, defaults={"visits": 7}) == Row(id=1, name="Ann", visits=7)


def test_a_renamed_field_keeps_its_content(files):
    new = Types.ROW_NAMED(["id", "full_name"], [Types.INT(), Types.STRING()])
    value = evolved(files, PERSON, Row(id=1, name="Ann"), new, renamed={"name": "full_name"})
    assert value == Row(id=1, full_name="Ann")
    # The same program restored from its own snapshot: the field is already renamed.
    assert evolved(files, new, value, new, renamed={"name": "full_name"}) == value


def test_rows_within_lists_and_rows_follow(files):
    old = Types.ROW_NAMED(["who", "tags"], [PERSON, Types.LIST(PERSON)])
    inner = Types.ROW_NAMED(["id", "alias"], [Types.LONG(), Types.STRING()])
    new = Types.ROW_NAMED(["who", "tags"], [inner, Types.LIST(PERSON)])
    value = evolved(
        files,
        old,
        Row(who=Row(id=1, name="Ann"), tags=[Row(id=2, name="x")]),
        new,
        renamed={"who.name": "who.alias"},
    )
    assert value == Row(who=Row(id=1, alias="Ann"), tags=[Row(id=2, name="x")])


def test_numbers_widen(files):
    assert evolved(files, Types.INT(), 5, Types.LONG()) == 5
    assert evolved(files, Types.FLOAT(), 0.5, Types.DOUBLE()) == 0.5
    assert evolved(files, Types.TUPLE([Types.INT()]), (5,), Types.TUPLE([Types.LONG()])) == (5,)


def test_tuples_grow_and_shrink_at_their_end(files):
    pair = Types.TUPLE([Types.INT(), Types.STRING()])
    assert evolved(files, Types.TUPLE([Types.INT()]), (1,), pair, defaults={"f1": "x"}) == (1, "x")
    assert evolved(files, pair, (1, "x"), Types.TUPLE([Types.INT()])) == (1,)


def test_list_elements_and_map_values_follow(files):
    new = Types.ROW_NAMED(["id"], [Types.INT()])
    listed = written(files, ListStateDescriptor("l", PERSON), [Row(id=1, name="Ann"), Row(id=2, name="Bob")])
    mapped = written(files, MapStateDescriptor("m", Types.INT(), PERSON), {7: Row(id=1, name="Ann")})
    assert read(files, listed, ListStateDescriptor("l", new)) == [Row(id=1), Row(id=2)]
    assert read(files, mapped, MapStateDescriptor("m", Types.LONG(), new)) == {7: Row(id=1)}


def test_fields_and_time_to_live_can_change_together(files):
    handle = written(files, ListStateDescriptor("l", PERSON), [Row(id=1, name="Ann")])
    descriptor = ListStateDescriptor("l", Types.ROW_NAMED(["id"], [Types.INT()]))
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    assert read(files, handle, descriptor) == [Row(id=1)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (Types.LONG(), Types.INT(), "operator 'count words', state 's': was LONG and is INT now"),
        (Types.INT(), Types.STRING(), "state 's': was INT and is STRING now"),
        (Types.DOUBLE(), Types.FLOAT(), "was DOUBLE and is FLOAT now"),
        (Types.PICKLED_BYTE_ARRAY(), Types.INT(), "was PICKLED and is INT now"),
        (
            PERSON,
            Types.ROW_NAMED(["id", "name"], [Types.STRING(), Types.STRING()]),
            "state 's', field 'id': was INT and is STRING now",
        ),
        (
            Types.ROW_NAMED(["who"], [PERSON]),
            Types.ROW_NAMED(["who"], [Types.ROW_NAMED(["name"], [Types.LIST(Types.STRING())])]),
            "field 'who.name': was STRING and is LIST<STRING> now",
        ),
        (Types.MAP(Types.INT(), Types.INT()), Types.MAP(Types.STRING(), Types.INT()), "was INT and is STRING now"),
    ],
)
def test_any_other_change_is_refused_by_name(files, old, new, message):
    value = {1: 1} if "Map" in repr(old) else Row(id=1, name="Ann")
    with pytest.raises(StateMigrationError, match=message):
        evolved(files, old, value, new)


def test_the_key_type_of_a_map_state_cannot_change(files):
    handle = written(files, MapStateDescriptor("m", Types.INT(), Types.INT()), {1: 1})
    with pytest.raises(StateMigrationError, match="state 'm': the key of the map was INT and is STRING now"):
        read(files, handle, MapStateDescriptor("m", Types.STRING(), Types.INT()))


def test_the_error_names_a_value_that_is_not_of_its_declared_type(files):
    new = Types.ROW_NAMED(["id"], [Types.INT()])
    with pytest.raises(
        StateMigrationError, match="state 's': the stored value 'oops' does not match its declared type"
    ):
        evolved(files, PERSON, "oops", Types.ROW_NAMED(["name", "x", "id"], [Types.STRING(), Types.INT(), Types.INT()]))
    assert evolved(files, PERSON, Row(id=1, name="Ann"), new) == Row(id=1)


def test_another_kind_of_state_is_refused(files):
    handle = written(files, ValueStateDescriptor("s", Types.INT()), 1)
    with pytest.raises(StateRestoreError, match="state 's': it was stored as a value state and is requested as a list"):
        read(files, handle, ListStateDescriptor("s", Types.INT()))


def test_another_type_of_key_is_refused(files):
    handle = written(files, ValueStateDescriptor("s", Types.INT()), 1, key_type=Types.STRING())
    assert read(files, handle, ValueStateDescriptor("s", Types.INT()), key_type=None) == 1
    with pytest.raises(
        StateMigrationError, match="operator 'count words': the keys were stored as STRING and now have the type LONG"
    ):
        read(files, handle, ValueStateDescriptor("s", Types.INT()), key_type=Types.LONG())


def test_a_rename_applies_only_to_its_row():
    with pytest.raises(ValueError, match="would move it to another row"):
        ValueStateDescriptor("s", PERSON).with_renamed_fields({"who.name": "name"})


def test_parts_written_with_different_types_are_merged(files):
    """A subtask that has not accessed its state writes it unchanged."""
    descriptor = ValueStateDescriptor("s", PERSON)
    old = HeapKeyedStateBackend(parameters())
    for key in ("a", "b"):
        old.key_context.key = key
        old.value_state(descriptor).update(Row(id=1, name=key))
    first = old.snapshot(1, OPTIONS).write(files)
    new = ValueStateDescriptor("s", Types.ROW_NAMED(["name"], [Types.STRING()]))
    handles = [first]
    halves = [parameters(first, files=files, key_groups=key_groups) for key_groups in halves_of_all()]
    asks, does_not = map(HeapKeyedStateBackend, halves)
    asks.value_state(new)
    handles = [part.snapshot(2, OPTIONS).write(files) for part in (asks, does_not)]

    one = HeapKeyedStateBackend(parameters(*filter(None, handles), files=files))
    again = one.snapshot(3, OPTIONS).write(files)

    last = HeapKeyedStateBackend(parameters(again, files=files))
    last.value_state(new)
    assert last.table("s") == {"a": Row(name="a"), "b": Row(name="b")}


def halves_of_all():
    from flinkpy.common.key_groups import key_group_range

    return key_group_range(128, 2, 0), key_group_range(128, 2, 1)


def test_operator_state_evolves_too(files):
    old = OperatorStateBackend(operator_name="reader")
    old.get_list_state(ListStateDescriptor("splits", PERSON)).add(Row(id=1, name="Ann"))
    old.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), PERSON)).put("k", Row(id=1, name="Ann"))
    handle = old.snapshot(1, OPTIONS).write(files)
    new_type = Types.ROW_NAMED(["name"], [Types.STRING()])

    new = OperatorStateBackend([handle], files, "reader")

    assert new.get_list_state(ListStateDescriptor("splits", new_type)).get() == [Row(name="Ann")]
    rules = new.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), new_type))
    assert rules.items() == [("k", Row(name="Ann"))]
    refused = OperatorStateBackend([handle], files, "reader")
    with pytest.raises(
        StateMigrationError, match="operator 'reader', state 'splits': was ROW<id INT, name STRING> and"
    ):
        refused.get_list_state(ListStateDescriptor("splits", Types.INT()))


def test_decimals_can_get_more_digits_and_not_fewer(files):
    value = Decimal("12.50")

    assert evolved(files, Types.DECIMAL(4, 2), value, Types.DECIMAL(9, 3)) == value
    for wanted in (Types.DECIMAL(3, 2), Types.DECIMAL(4, 1), Types.DECIMAL(4, 3), Types.BIG_DEC()):
        with pytest.raises(StateMigrationError, match=r"DECIMAL\(4, 2\)"):
            evolved(files, Types.DECIMAL(4, 2), value, wanted)
