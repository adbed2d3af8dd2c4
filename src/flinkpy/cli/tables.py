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
            header, justify="right" if position in right else "left", overflow="fold", no_wrap=position in whole
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
