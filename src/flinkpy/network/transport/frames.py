"""The frames of the data connection.

A frame is a header of 32 bytes and a body that is padded to a multiple of eight, so that Arrow buffers inside a receive
buffer are aligned. All numbers are little-endian.

| type              | from | channel | a            | b          | c          | d     | e    | body                 |
|-------------------|------|---------|--------------|------------|------------|-------|------|----------------------|
| HELLO             | C    |         | newest       | oldest     | id size    | size  |      | nonce, id, address   |
| CHALLENGE         | P    |         | version      | proof size | id size    | unit  |      | nonce, proof, id     |
| PROOF             | C    |         |              | proof size |            |       |      | proof                |
| PARTITION_REQUEST | C    | new     | first        | credits    | window     | size  | many | partition id         |
| SCHEMA            | P    | x       | size         |            |            |       |      | Arrow IPC schema     |
| DATA              | P    | x       | backlog      | payload    | timestamps | kinds | cost | those three          |
| ELEMENT           | P    | x       | size         |            |            |       |      | `flags`: the kind    |
| CREDIT            | C    | x       | credits      | window     |            |       |      |                      |
| BACKLOG           | P    | x       | backlog      | next cost  |            |       |      |                      |
| RECLAIM           | C    | x       | keep         |            |            |       |      |                      |
| RETURNED          | P    | x       | credits      |            |            |       |      |                      |
| CLOSE             | C    | x       |              |            |            |       |      |                      |
| ERROR             | P    | x       | code         | size       |            |       |      | message              |

P: the producer's process, C: the consumer's. Sizes are in bytes without padding; credits, costs, windows and backlogs
in segments, whose size is the producer's `unit`.

A PARTITION_REQUEST asks for `many` subpartitions from `first` on.

The consumer connects and speaks first, so that each side sees from the first bytes whether the other one uses TLS as
it does. HELLO says which versions of the protocol it speaks and what address it wants to be connected to; the producer
chooses the newest version of both and proves itself in CHALLENGE; the consumer proves itself in PROOF, and may ask for
partitions from then on. Nothing else is accepted before the authenticator of the receiving side has passed the peer,
and frames are small until then; those that consumers send stay small.
"""

from __future__ import annotations

import struct
from typing import Any

#: body bytes (padded), type, flags, unused, channel, a, b, c, d, e.
HEADER = struct.Struct("<IBBHIIIIII")
HEADER_BYTES = HEADER.size

PROTOCOL_VERSION = 2
#: Of the peers that can still be understood, as during a rolling update.
OLDEST_PROTOCOL_VERSION = 2
NONCE_BYTES = 32

HELLO, CHALLENGE, PROOF, PARTITION_REQUEST, SCHEMA, DATA, ELEMENT = range(1, 8)
#: With which a producer of protocol 1 began; of producers of today none begins.
GREETING_OF_VERSION_1 = 1
CREDIT, BACKLOG, RECLAIM, RETURNED, CLOSE, ERROR = range(8, 14)

# Flags of DATA.
PICKLED = 1
#: Part of one record that is larger than the credit can ever be; more parts follow.
MORE = 2
# Flag of CREDIT.
FINAL = 1
#: Of PARTITION_REQUEST: the partition is finished, so if it is not there it will not come.
IS_FINISHED = 1

# Codes of ERROR.
PARTITION_NOT_FOUND, PRODUCER_FAILED, ALREADY_CONSUMED, REFUSED, PARTITION_CORRUPTED = range(1, 6)

# No frame may be larger: a batch is cut to the credit window long before, so a longer one is not ours.
MAX_BODY_BYTES = 1 << 30
# Until the peer is authenticated it cannot make us allocate more than this; nothing that a consumer sends is longer.
MAX_SMALL_BODY_BYTES = 1 << 12
# A control element is some bytes; a barrier carries the location of a savepoint, and a marker an operator's id.
MAX_ELEMENT_BYTES = 1 << 16
# Ten thousand columns with their metadata fit.
MAX_SCHEMA_BYTES = 1 << 24
# Of a resource id or an address in a greeting.
MAX_NAME_BYTES = 512
# What a TLS connection begins with, a handshake or an alert. Read as our header it is a frame that is too long.
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
    """A whole frame with a small body."""
    padding = -len(body) % 8
    return HEADER.pack(len(body) + padding, kind, flags, 0, channel, a, b, c, d, e) + body + bytes(padding)


def data_header(flags: int, channel: int, backlog: int, cost: int, encoded: Any, body_bytes: int) -> bytes:
    """The header of a DATA frame whose body follows in parts. `encoded`: an `EncodedBatch`."""
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
