"""The cases of the fuzz tests: their number, their random numbers, and random changes of valid bytes.

FLINKPY_FUZZ_SEED is the number of the first case. A failure names its case, which can then be repeated alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

SEED = int(os.environ.get("FLINKPY_FUZZ_SEED", "0"))


def number_of_cases(variable: str, default: int) -> int:
    """Returns how many cases the environment variable asks for: few in `make test`, many in
    `make chaos`.
    """
    return int(os.environ.get(variable, str(default)))


def cases(count: int) -> Iterator[tuple[int, random.Random]]:
    """Yields the number of each case with a random generator that it seeds."""
    for number in range(SEED, SEED + max(1, count)):
        yield number, random.Random(number)


#: The values that mutated sizes, counts and offsets get.
_INTERESTING = (0, 1, 7, 8, 9, 255, 4096, 1 << 16, (1 << 22) + 8, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Returns the bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not changed:
            changed += rng.randbytes(8)
        at = rng.randrange(len(changed))
        match rng.randrange(7):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at] = rng.randrange(256)
            case 2 | 3:
                at &= ~3
                changed[at : at + 4] = rng.choice(_INTERESTING).to_bytes(4, "little")
            case 4:
                del changed[at:]
            case 5:
                del changed[at : at + rng.randint(1, 16)]
            case 6:
                changed[at:at] = rng.randbytes(rng.randint(1, 16))
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """Returns the same bytes in a few pieces, as a network may deliver them."""
    points = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(3)))
    return [data[start:end] for start, end in zip([0, *points], [*points, len(data)], strict=True)]
