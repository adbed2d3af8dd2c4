from __future__ import annotations

import copy

import pytest

from flinkpy.common import Configuration
from flinkpy.common.errors import ConfigurationError


def test_getters_return_the_values_that_were_set() -> None:
    conf = Configuration()
    conf.set_string("str", "v1").set_integer("int", 2).set_boolean("bool", True).set_float("float", 0.5)
    conf.set_bytearray("bytearray", bytearray([1, 2, 3]))

    assert conf.get_string("str", "") == "v1"
    assert conf.get_integer("int", 0) == 2
    assert conf.get_boolean("bool", False) is True
    assert conf.get_float("float", 0.0) == 0.5
    assert conf.get_bytearray("bytearray", bytearray()) == bytearray([1, 2, 3])


def test_an_absent_key_returns_the_default() -> None:
    assert Configuration().get_integer("x", 7) == 7
    assert Configuration().get_string("x", "d") == "d"


def test_values_are_converted_when_read() -> None:
    conf = Configuration.from_dict({"i": "42", "b": "TRUE", "f": "1.5"})

    assert conf.get_integer("i", 0) == 42
    assert conf.get_boolean("b", False) is True
    assert conf.get_float("f", 0.0) == 1.5
    assert conf.set_integer("n", 3).get_string("n", "") == "3"
    assert conf.set_boolean("t", False).get_string("t", "") == "false"


@pytest.mark.parametrize(("getter", "default"), [("get_integer", 0), ("get_boolean", False), ("get_float", 0.0)])
def test_a_value_of_the_wrong_type_raises_an_error_with_the_key(getter: str, default: object) -> None:
    conf = Configuration.from_dict({"my.key": "nonsense"})

    with pytest.raises(ConfigurationError, match=r"my\.key: 'nonsense'"):
        getattr(conf, getter)("my.key", default)


def test_text_form_and_equality_follow_the_entries() -> None:
    conf, other = Configuration(), Configuration()
    conf.set_string("k1", "v1").set_integer("k2", 1)
    other.set_string("k1", "v1")

    assert conf != other
    other.set_integer("k2", 1)
    assert conf == other
    assert hash(conf) == hash(other)
    assert str(conf) == "{k1=v1, k2=1}"


def test_deep_copy_is_independent() -> None:
    conf = Configuration().set_string("a", "1")
    clone = copy.deepcopy(conf)
    clone.set_string("a", "2")

    assert conf.get_string("a", "") == "1"


def test_add_all_takes_a_prefix_and_add_all_to_dict_keeps_types() -> None:
    conf = Configuration().add_all(Configuration().set_integer("k", 1), "p.")
    target: dict[str, object] = {}
    conf.add_all_to_dict(target)

    assert target == {"p.k": 1}
    assert conf.to_dict() == {"p.k": "1"}
    assert conf.key_set() == {"p.k"}


def test_removed_key_is_gone() -> None:
    conf = Configuration().set_string("a", "1")

    assert conf.remove_config("a")
    assert not conf.remove_config("a")
    assert not conf.contains_key("a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("a;b", ["a", "b"]), ("[a, b]", ["a", "b"]), ("- a\n- b", ["a", "b"]), ("one", ["one"])],
)
def test_list_values_are_parsed_in_all_forms(text: str, expected: list[str]) -> None:
    assert Configuration.parse_list_value(text) == expected
