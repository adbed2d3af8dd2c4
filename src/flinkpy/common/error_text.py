"""Text of exceptions, and other untrusted text, that is safe to send, store and print.

Exceptions come from any code. Their text may be missing, may raise when it is read, may contain characters that UTF-8
cannot encode, or may be huge. All reports of exceptions use the functions here, which return valid and bounded text.
"""

from __future__ import annotations

import re
import traceback
from typing import Any

#: Maximum length of an error message. It is sent with each restart and kept up to 16 times in the exception history,
#: and the whole history of a job must fit into one RPC message.
MAX_MESSAGE_CHARS = 16 * 1024
#: Maximum length of a traceback: about 400 frames.
MAX_TRACEBACK_CHARS = 32 * 1024
#: Maximum length of a value in the details of an error, and maximum number of details.
MAX_DETAIL_CHARS = 4 * 1024
MAX_DETAILS = 32
#: Maximum length of an exception's text inside a message; it leaves room for the names of task and operator.
MAX_ERROR_TEXT_CHARS = MAX_MESSAGE_CHARS - 2 * 1024
#: If chains of causes and groups have more exceptions than this, only the ends of the chain are formatted. Python would
#: format each of them, at some KiB apiece, before the text can be cut.
MAX_FORMATTED = 64
#: Number of exceptions that the traceback of such a chain shows: half of them from each end.
MAX_CHAINED = 16

#: The lines that Python writes between two exceptions of a chain.
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"

#: Exceptions that count as a failure of user code and must not end the calling thread or loop. The exception that
#: interrupts a task is not one of them.
USER_ERRORS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)


def valid_text(text: str) -> str:
    """Returns `text` with lone surrogates, which UTF-8 cannot encode, written as `\\udc80`."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def bounded_text(text: str, limit: int) -> str:
    """Returns valid text of at most `limit` characters: the start and the end of `text`, and the omitted number."""
    if len(text) > limit:
        mark = f"\n... {len(text) - limit} characters left out ...\n"
        kept = max(limit - len(mark), 0)
        head = kept - kept // 2
        text = text[:head] + mark[:limit] + (text[-(kept // 2) :] if kept // 2 else "")
    valid = valid_text(text)
    # Escaping made the text longer. It is ASCII now, so the next call only cuts it.
    return valid if len(valid) <= limit else bounded_text(valid, limit)


def describe(error: BaseException) -> str:
    """Returns `Type: text`, or only the type if the exception has no text. Never raises."""
    text = text_of(error)
    name = bounded_text(type(error).__name__, 256)
    return f"{name}: {text}" if text else name


def text_of(error: BaseException) -> str:
    """Returns the valid, bounded `str(error)`, or a note if `__str__` of the exception fails. Never raises."""
    try:
        text = str(error)
    except USER_ERRORS as failure:
        return f"<no text: {type(error).__name__}.__str__ raised {type(failure).__name__}>"
    return bounded_text(text, MAX_ERROR_TEXT_CHARS)


def safe_repr(value: Any, limit: int = 200) -> str:
    """Returns the valid, bounded `repr(value)`, or a note if `__repr__` of the value fails. Never raises."""
    try:
        text = repr(value)
    except USER_ERRORS as failure:
        return f"<{type(value).__name__} whose __repr__ raised {type(failure).__name__}>"
    return bounded_text(text, limit)


def format_user_traceback(error: BaseException) -> str:
    """Returns the traceback of `error` without flinkpy's own frames, so it starts with the user's code.

    If it has no other frames, because flinkpy itself raised the error, all frames are kept. The text is valid and at
    most `MAX_TRACEBACK_CHARS` long. Never raises.
    """
    return _formatted(error, only_user_frames=True)


def format_traceback(error: BaseException) -> str:
    """Returns the whole traceback of `error`, valid and at most `MAX_TRACEBACK_CHARS` long. Never raises."""
    return _formatted(error, only_user_frames=False)


def _formatted(error: BaseException, *, only_user_frames: bool) -> str:
    try:
        if _is_small(error):
            text = _format_whole(error, only_user_frames)
        else:
            text = _format_ends(error, only_user_frames)
    except USER_ERRORS as failure:
        text = f"{describe(error)}\n<its traceback cannot be formatted: {type(failure).__name__}>\n"
    return bounded_text(text, MAX_TRACEBACK_CHARS)


def _is_small(error: BaseException) -> bool:
    """True if the chain and the groups of `error` have at most `MAX_FORMATTED` exceptions."""
    pending, seen = [error], {id(error)}
    while pending:
        current = pending.pop()
        linked = [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            linked += current.exceptions[: MAX_FORMATTED + 1]
        for other in linked:
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                pending.append(other)
        if len(seen) > MAX_FORMATTED:
            return False
    return True


def _format_whole(error: BaseException, only_user_frames: bool) -> str:
    summary = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = summary
    while link is not None:
        if only_user_frames:
            link.stack = _user_frames(link.stack)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "".join(summary.format())


def _format_ends(error: BaseException, only_user_frames: bool) -> str:
    """Formats the first and the last exceptions of a long chain, without the members of groups."""
    links: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    link: BaseException | None = error
    joint = ""
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        links.append((link, joint))
        if link.__cause__ is not None:
            link, joint = link.__cause__, _CAUSED
        else:
            link, joint = (None if link.__suppress_context__ else link.__context__), _DURING
    links.reverse()
    half = MAX_CHAINED // 2
    left_out = len(links) - 2 * half
    if left_out > 0:
        mark = f"... {left_out} exceptions of the chain left out ...\n\n"
        return _format_links(links[:half], only_user_frames) + mark + _format_links(links[-half:], only_user_frames)
    return _format_links(links, only_user_frames)


def _format_links(links: list[tuple[BaseException, str]], only_user_frames: bool) -> str:
    parts = []
    for link, joint in links:
        stack = traceback.extract_tb(link.__traceback__)
        if only_user_frames:
            stack = _user_frames(stack)
        header = "Traceback (most recent call last):\n" if stack else ""
        parts.append(f"{header}{''.join(stack.format())}{describe(link)}\n{joint}")
    return "".join(parts)


def _user_frames(stack: traceback.StackSummary) -> traceback.StackSummary:
    kept = [frame for frame in stack if not is_runtime_frame(frame)]
    return traceback.StackSummary.from_list(kept) if kept else stack


def is_runtime_frame(frame: traceback.FrameSummary) -> bool:
    package = __name__.partition(".")[0]
    path = frame.filename.replace("\\", "/")
    return f"/{package}/" in path or path.startswith("<flinkpy")


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
