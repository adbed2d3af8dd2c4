"""Text forms of option values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.configuration import values


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("10 s", 10_000),
        ("10s", 10_000),
        ("500 ms", 500),
        ("7", 7),
        ("1 min", 60_000),
        ("2 h", 7_200_000),
        ("1 d", 86_400_000),
        ("PT10S", 10_000),
        ("PT0.05S", 50),
        ("PT7.5S", 7_500),
        ("PT1M30S", 90_000),
        ("PT720H", 2_592_000_000),
        ("P1DT1S", 86_401_000),
        ("0 s", 0),
        ("1 us", 1),
        ("1500 us", 2),
    ],
)
def test_a_duration_is_read_as_milliseconds(text: str, milliseconds: int) -> None:
    assert values.parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "ten", "10 parsecs", "-1 s", "P", "PT", "1.5 s", "s"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        values.parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64mb", 64 << 20),
        ("1 gb", 1 << 30),
        ("32 kb", 32 << 10),
        ("256 bytes", 256),
        ("10485760b", 10_485_760),
        ("5", 5),
    ],
)
def test_a_memory_size_is_read_as_bytes(text: str, size_bytes: int) -> None:
    assert values.parse_memory_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "mb", "1.5 gb", "-1 mb", "3 stone"])
def test_an_invalid_memory_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        values.parse_memory_bytes(text)


@given(st.integers(min_value=0, max_value=10**13))
def test_a_formatted_duration_is_parsed_as_the_same_value(milliseconds: int) -> None:
    assert values.parse_duration_ms(values.format_duration(milliseconds)) == milliseconds


@given(st.integers(min_value=0, max_value=2**50))
def test_a_formatted_memory_size_is_parsed_as_the_same_value(size_bytes: int) -> None:
    assert values.parse_memory_bytes(values.format_memory(size_bytes)) == size_bytes


def test_lists_and_maps_have_a_plain_and_a_yaml_form() -> None:
    assert values.parse_list("a;b; c") == values.parse_list("[a, 'b', c]") == ("a", "b", "c")
    assert values.parse_map("a:1,b:2") == values.parse_map("{a: 1, b: '2'}") == {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match="pairs"):
        values.parse_map("a")


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("'a;b';c", ("a;b", "c")),
        ('"say ""hi"";";c', ('say "hi";', "c")),
        ("['a,b', c]", ("a,b", "c")),
        ("- a\n- b", ("a", "b")),
        ("[]", ()),
        ("a,b", ("a,b",)),
    ],
)
def test_lists_are_parsed_as_in_flink(text: str, elements: tuple[str, ...]) -> None:
    assert values.parse_list(text) == elements


def test_written_list_is_read_back() -> None:
    elements = ("a;b", "'quoted'", 'say "hi"; or not', "plain")
    assert values.parse_list(values.format_list(elements)) == elements


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ('{"a,x": 1, b: 2}', {"a,x": "1", "b": "2"}),
        ("a: 1\nb: 2", {"a": "1", "b": "2"}),
        ("'a,b':1,c:2", {"a,b": "1", "c": "2"}),
        ("url:'http://x:80,y'", {"url": "http://x:80,y"}),
    ],
)
def test_maps_are_parsed_as_in_flink(text: str, pairs: dict[str, str]) -> None:
    assert values.parse_map(text) == pairs


@pytest.mark.parametrize("text", ["'open", "[a, [b]]", "[a"])
def test_an_invalid_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        values.parse_list(text)


@pytest.mark.parametrize("text", ["999999999999 d", "9223372036854775808"])
def test_duration_of_more_than_64_bits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected at most"):
        values.parse_duration_ms(text)
