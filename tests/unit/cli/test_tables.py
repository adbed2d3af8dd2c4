"""Tables and numbers are formatted for people."""

from __future__ import annotations

import pytest

from flinkpy.cli import tables


def test_a_pipe_gets_tab_separated_lines(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_table(["A", "B"], [["1", "2"]])
    assert capsys.readouterr().out == "A\tB\n1\t2\n"


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (5 << 30, "5.0 GB"), (3 << 40, "3.0 TB")]
)
def test_bytes_are_shown_in_the_largest_unit_that_fits(size_bytes: int, text: str) -> None:
    assert tables.format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(340, "340 ms"), (12_340, "12.3 s"), (125_000, "2 m 05 s"), (3 * 3_600_000 + 7 * 60_000, "3 h 07 m")],
)
def test_durations_are_shown_in_two_units_at_most(milliseconds: int, text: str) -> None:
    assert tables.format_duration_ms(milliseconds) == text


def test_control_characters_in_a_cell_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_table(["A", "B"], [["job\tx\n\x1b[2J", "[bold]2[/bold]"]])
    assert capsys.readouterr().out == "A\tB\njob\\tx\\n\\x1b[2J\t[bold]2[/bold]\n"
