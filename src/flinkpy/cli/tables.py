"""Prints tables: aligned columns on a terminal, tab-separated lines elsewhere. Formats numbers for people."""

from __future__ import annotations

import sys

import click

from flinkpy.common.error_text import escaped_line


def print_table(
    headers: list[str], rows: list[list[str]], right: tuple[int, ...] = (), whole: tuple[int, ...] = ()
) -> None:
    """Prints `rows` under `headers`. Unprintable characters, e.g. in the name of a job, are escaped.

    Args:
        right: positions of columns that are right-aligned.
        whole: positions of columns that are never wrapped, so that their cells can be copied.
    """
    rows = [[escaped_line(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [headers, *rows]:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, header in enumerate(headers):
        table.add_column(
            header,
            justify="right" if position in right else "left",
            overflow="fold",
            no_wrap=position in whole or position in right,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text, because rich reads brackets in a string as markup
    Console().print(table)


def format_count(count: int) -> str:
    """Formats a count, e.g. `1,234,567`."""
    return f"{count:,}"


def format_bytes(size_bytes: int) -> str:
    """Formats a size in units of 1024, e.g. `1.5 MB`."""
    size = float(size_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def format_timestamp(milliseconds: int) -> str:
    """Formats a timestamp as local time to the second; `-` for none."""
    import datetime

    if milliseconds <= 0:
        return "-"
    return datetime.datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")


def format_duration_ms(milliseconds: int) -> str:
    """Formats a duration, e.g. `340 ms`, `12.3 s`, `2 m 05 s` or `3 h 07 m`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds_left = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {seconds_left:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"


def format_clock(milliseconds: int) -> str:
    """Formats a duration to the second, e.g. `0:07`, `12:30` or `3:07:15`."""
    minutes, seconds = divmod(max(0, milliseconds) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def format_short_count(count: float) -> str:
    """Formats a count in at most six characters, e.g. `999`, `12.3k`, `1.23M` or `4.56G`."""
    if count < 1000:
        return f"{count:.0f}"
    value = float(count)
    for unit in ("k", "M", "G", "T", "P"):
        value /= 1000
        # 999.95 would be shown as 1000.
        if value < 999.5 or unit == "P":
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f}{unit}"
    raise AssertionError("the last unit has no limit")


def format_rate(per_second: float | None) -> str:
    """Formats a number per second; `-` if it is not known."""
    if per_second is None:
        return "-"
    return f"{per_second:.1f}" if 0 < per_second < 10 else format_short_count(max(0.0, per_second))
