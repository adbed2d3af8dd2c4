"""Lists of ports and ranges in options."""

from __future__ import annotations

import pytest

from flinkpy.common.addresses import parse_port_range
from flinkpy.common.errors import ConfigurationError


@pytest.mark.parametrize(
    "text, ports",
    [("8081", (8081,)), ("0", (0,)), ("50100-50102,8081", (50100, 50101, 50102, 8081)), (" 1 , 1-2 ", (1, 2))],
)
def test_port_ranges(text: str, ports: tuple[int, ...]) -> None:
    assert parse_port_range(text, "rest.bind-port") == ports


@pytest.mark.parametrize("text", ["", "x", "2-1", "0-5", "65536", "1-", "-1", "1,,2", "1_0", "٣", "99999999999"])
def test_bad_port_ranges_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rest\.bind-port"):
        parse_port_range(text, "rest.bind-port")
