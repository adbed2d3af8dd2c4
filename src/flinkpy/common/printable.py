"""Escaping of untrusted text before it is shown in a log or on a terminal."""

from __future__ import annotations

import re

#: Characters that a terminal interprets or a reader cannot see: control characters except tab and line feed, line
#: separators, marks that change the direction of text, and lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""Returns the text with unprintable characters as Python escapes: `\x1b`, `\u202e`. Line feeds and tabs stay."""
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def escaped_line(text: str) -> str:
    """Returns the text like `escaped`, with line feeds and tabs escaped too."""
    return escaped(text).replace("\n", r"\n").replace("\t", r"\t")
