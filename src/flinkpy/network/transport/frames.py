"""The frames of the data connection.

A frame is a header of 32 bytes and a body that is padded to a multiple of eight, so that Arrow buffers inside a receive
buffer are aligned. All numbers are little-endian.

| type              | from | channel | a            | b          | c          | d     | e     | body                 |
|-------------------|------|---------|--------------|------------|------------|-------|-------|----------------------|
| HELLO             | C    |         | newest       | oldest     | id size    | size  |       | nonce, id, address   |
| CHALLENGE         | P    |         | version      | proof size | id size    | unit  |       | nonce, proof, id     |
| PROOF             | C    |         |              | proof size |            |       |       | proof                |
| PARTITION_REQUEST | C    | new     | first        | credits    | window     | size  | count | partition id         |
| SCHEMA            | P    | x       | size         |            |            |       |       | Arrow IPC schema     |
| DATA              | P    | x       | backlog      | payload    | timestamps | kinds | cost  | those three          |
| ELEMENT           | P    | x       | size         |            |            |       |       | `flags`: the kind    |
| CREDIT            | C    | x       | credits      | window     |            |       |       |                      |
| BACKLOG           | P    | x       | backlog      | next cost  |            |       |       |                      |
| RECLAIM           | C    | x       | keep         |            |            |       |       |                      |
| RETURNED          | P    | x       | credits      |            |            |       |       |                      |
| CLOSE             | C    | x       |              |            |            |       |       |                      |
| ERROR             | P    | x       | code         | size       |            |       |       | message              |

P: the producer's process, C: the consumer's. Sizes are in bytes without padding. Credits, costs, windows and backlogs
are in segments, whose size is the producer's `unit`.

A PARTITION_REQUEST asks for `count` subpartitions from `first` on.

The consumer connects and sends the first frame, so each side sees from the first bytes whether the other one also uses
TLS or not. HELLO has the protocol versions that the consumer supports and the address that it wants to reach. The
producer chooses the newest common version and proves its identity in CHALLENGE. The consumer proves its identity in
PROOF, and may request partitions from then on. A side accepts no other frames until its authenticator has accepted the
peer, and frames are small until then. Frames of consumers are always small.
"""

from __future__ import annotations

import struct
from typing import Any

#: body bytes (padded), type, flags, unused, channel, a, b, c, d, e.
HEADER = struct.Struct("<IBBHIIIIII")
HEADER_BYTES = HEADER.size

PROTOCOL_VERSION = 2
#: The oldest version that this process still supports, for rolling updates.
OLDEST_PROTOCOL_VERSION = 2
NONCE_BYTES = 32

HELLO, CHALLENGE, PROOF, PARTITION_REQUEST, SCHEMA, DATA, ELEMENT = range(1, 8)
#: The first frame of a producer of protocol version 1. Later versions do not begin with it.
GREETING_OF_VERSION_1 = 1
CREDIT, BACKLOG, RECLAIM, RETURNED, CLOSE, ERROR = range(8, 14)

# Flags of DATA.
PICKLED = 1
#: Part of a record that is larger than the credit can ever be; more parts follow.
MORE = 2
# Flag of CREDIT.
FINAL = 1
#: Flag of PARTITION_REQUEST: the partition is finished, so if it does not exist now, it never will.
IS_FINISHED = 1

# Codes of ERROR.
PARTITION_NOT_FOUND, PRODUCER_FAILED, ALREADY_CONSUMED, REFUSED, PARTITION_CORRUPTED = range(1, 6)

# The maximum size of a frame. Batches are cut to the credit window, which is far smaller, so a larger frame is invalid.
MAX_BODY_BYTES = 1 << 30
# The maximum size of frames of unauthenticated peers and of consumers. It limits the memory that a stranger can make
# this process allocate.
MAX_SMALL_BODY_BYTES = 1 << 12
# Control elements have some bytes. A barrier contains the location of a savepoint, and a marker the id of an operator.
MAX_ELEMENT_BYTES = 1 << 16
# Enough for ten thousand columns with their metadata.
MAX_SCHEMA_BYTES = 1 << 24
# The maximum size of a resource id or address in a greeting.
MAX_NAME_BYTES = 512
# The first bytes of a TLS connection: a handshake or an alert. Read as one of our headers, they declare a frame that is
# too long.
TLS_RECORDS = (b"\x16\x03", b"\x15\x03")


def frame(
    kind: int,
    channel: int = 0,
    a: int = 0,
    b: int = 0,
    c: int = 0,
    d: int = 0,
    e: int = 0,
    *,
    flags: int = 0,
    body: bytes = b"",
) -> bytes:
    """Returns a whole frame with a small body."""
    padding = -len(body) % 8
    return HEADER.pack(len(body) + padding, kind, flags, 0, channel, a, b, c, d, e) + body + bytes(padding)


def data_header(flags: int, channel: int, backlog: int, cost: int, encoded: Any, body_bytes: int) -> bytes:
    """Returns the header of a DATA frame whose body follows in parts.

    Args:
        encoded: an `EncodedBatch` or `StoredBatch`.
    """
    return HEADER.pack(
        body_bytes,
        DATA,
        flags,
        0,
        channel,
        backlog,
        encoded.payload_bytes,
        encoded.timestamps_bytes,
        encoded.kinds_bytes,
        cost,
    )
