"""The part of a log file that a request wants: all, a range of bytes (RFC 9110, 14), or the last lines."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.responses import Response, StreamingResponse

from flinkpy.rest.errors import RestError
from flinkpy.rest.operation import QueryParameter, RestCall, integer

#: The size of the part at the end of a file in which the last lines are looked for.
MAX_TAIL_BYTES = 4 << 20
#: The most lines that a request may ask for.
MAX_TAIL_LINES = 100_000

TAIL_PARAMETER = QueryParameter(
    "tail", "Returns only the last lines, at most this number.", integer(1, MAX_TAIL_LINES), is_internal=True
)

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file: from `start` to before `end`."""

    start: int
    end: int


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Returns the part that a header names; None: the whole file, also for a header that is not understood.

    Raises: RestError with status 416 if the file has no such part.
    """
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or not (found[1] or found[2]):
        return None
    if found[1]:
        start, end = int(found[1]), int(found[2]) + 1 if found[2] else size
        if found[2] and end <= start:
            return None
    else:
        start, end = size - min(size, int(found[2])), size
    if start >= size:
        raise RestError(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"The file has {size} bytes.",
            {"content-range": f"bytes */{size}"},
        )
    return ByteRange(start, min(end, size)) if (start, size) != (0, min(end, size)) else None


#: Returns a part of the file in pieces.
ReadPart = Callable[[ByteRange], AsyncIterator[bytes]]


async def log_response(call: RestCall, size: int, read: ReadPart, *, is_local: bool = False) -> Response:
    """Answers with the part of a text file that a call wants. A browser shows it and takes nothing in it for markup.

    Args:
        is_local: the file is on this host, so the answer can tell its length beforehand.
    """
    headers = {"cache-control": "no-store", "accept-ranges": "bytes"}
    media_type = "text/plain; charset=UTF-8"
    if call.query.get("tail"):
        part = ByteRange(max(0, size - MAX_TAIL_BYTES), size)
        data = b"".join([piece async for piece in read(part)]) if size else b""
        lines = last_lines(data, call.query["tail"], is_cut=part.start > 0)
        return Response(lines, HTTPStatus.OK, headers, media_type)
    wanted = parse_range(None if call.request is None else call.request.headers.get("range"), size)
    part = wanted or ByteRange(0, size)
    if wanted is not None or is_local:
        headers["content-length"] = str(part.end - part.start)
    if wanted is not None:
        headers["content-range"] = f"bytes {part.start}-{part.end - 1}/{size}"
    status = HTTPStatus.OK if wanted is None else HTTPStatus.PARTIAL_CONTENT
    # The first piece is read before the status is sent: a file that has just been removed gets 404.
    pieces = read(part)
    first = await anext(pieces, None) if size else None
    return StreamingResponse(_exactly(first, pieces, part), status, headers, media_type)


async def _exactly(first: bytes | None, pieces: AsyncIterator[bytes], part: ByteRange) -> AsyncIterator[bytes]:
    left = part.end - part.start
    piece = first
    while piece is not None and left > 0:
        yield piece[:left]
        left -= len(piece)
        piece = await anext(pieces, None) if left > 0 else None


def last_lines(data: bytes, count: int, *, is_cut: bool) -> bytes:
    """Returns the last lines of a text. The first line of a text that `is_cut` is not whole, and left out."""
    if is_cut:
        data = data.partition(b"\n")[2]
    return b"".join(data.splitlines(keepends=True)[-count:])
