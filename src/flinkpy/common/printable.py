"""Text of other people as it may be shown: in a log, on a terminal, in a line of its own."""

from __future__ import annotations

import re

#: Characters that a terminal or a reader of the file would not show as they are: control characters but the tabulator,
#: separators of lines, marks that reverse the direction of text, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""Returns the text with what is not printable as Python writes it: `\x1b`, `\u202e`. Lines and tabulators stay."""
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def escaped_line(text: str) -> str:
    """Returns the text as one line and one column: `escaped`, with ends of lines and tabulators written out too."""
    return escaped(text).replace("\n", r"\n").replace("\t", r"\t")
