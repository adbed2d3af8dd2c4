"""The texts of events: names, random words, channels with their URLs, and the filler of the `extra` fields."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.connectors.nexmark.draws import Array, Draws

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
#: The number of channels besides the hot ones.
CHANNELS = 10_000

#: Random words are never shorter.
MIN_WORD_LENGTH = 3
#: One character of a random word in 13 is the special one; the others are letters.
_SPECIAL_SHARE = 13
_LETTERS = 26
_BITS_OF_A_LANE = 16

#: The length of the text whose parts are the `extra` fields. A power of two.
FILLER_LENGTH = 1 << 20
#: The number of letters that one random int of 31 bits gives.
_LETTERS_PER_INT = 6
#: A text of a view of strings that is not longer than this lies in the view itself.
_INLINE_LENGTH = 12


def array_of(offsets: Array, data: Any) -> pa.StringArray:
    """Returns the texts of `data` between successive offsets, int32[n + 1]."""
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def offsets_of(lengths: Array) -> Array:
    """Returns int32[n + 1], the sums of the lengths before each text and after the last."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def random_words(draws: Draws, first: int, lengths: Array, max_length: int, special: str) -> pa.StringArray:
    """Returns random words. Spaces at both ends are removed.

    Args:
        draws: one seed per word.
        first: the number of the first draw. A draw gives four characters.
        lengths: int64[n], the lengths before spaces are removed.
        max_length: the upper bound of `lengths`.
        special: the character that takes the place of every 13th letter or so.
    """
    codes = draws.lanes(first, max_length)
    codes *= np.uint32(_SPECIAL_SHARE * _LETTERS)
    codes >>= np.uint32(_BITS_OF_A_LANE)
    characters = (codes % np.uint32(_LETTERS)).astype(np.uint8)
    characters += np.uint8(ord("a"))
    characters[codes < _LETTERS] = ord(special)
    positions = np.arange(max_length)
    kept = positions < lengths[:, None]
    if special == " ":
        letters = kept & (characters != ord(" "))
        has_letters = letters.any(axis=1)
        begin = letters.argmax(axis=1)
        end = np.where(has_letters, max_length - letters[:, ::-1].argmax(axis=1), 0)
        kept = (positions >= begin[:, None]) & (positions < end[:, None])
    return array_of(offsets_of(kept.sum(axis=1)), characters[kept])


def take(values: tuple[str, ...] | pa.Array, indices: Array) -> pa.StringArray:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array.take(pa.array(indices))


def joined(*parts: Any) -> pa.StringArray:
    """Returns the concatenation of the parts, each of which is an array or a text."""
    return pc.binary_join_element_wise(*parts, "")


@cache
def four_digits() -> pa.StringArray:
    """Returns the texts 0000 to 9999."""
    return pa.array([f"{number:04d}" for number in range(10_000)])


@cache
def full_names() -> pa.StringArray:
    """Returns all names, those with the same first name together."""
    return pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])


@cache
def channels() -> tuple[pa.StringArray, pa.StringArray]:
    """Returns the names and URLs of the hot channels, and of the others after them.

    A URL is the same in every run, as if the channel with number i were an event with the id -1 - i. Nine of ten
    channels that are not hot have an id in their URL: their number with all bits reversed, without its sign.
    """
    hot = len(HOT_CHANNELS)
    numbers = np.concatenate([np.arange(hot) + CHANNELS, np.arange(CHANNELS)])
    draws = Draws(-1 - numbers)
    folders = [
        random_words(draws, 2 + i, MIN_WORD_LENGTH + half(word, 2), 4, "_")
        for i, (half, word) in enumerate(((draws.low, 0), (draws.high, 0), (draws.low, 1)))
    ]
    urls = joined("https://www.nexmark.com/", folders[0], "/", folders[1], "/", folders[2], "/item.htm?query=1")
    has_id = (draws.high(1, 10) > 0) & (np.arange(len(numbers)) >= hot)
    ids = [f"&channel_id={_reversed(int(number))}" if wanted else "" for number, wanted in zip(numbers, has_id)]
    names = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]
    return pa.array(names), joined(urls, pa.array(ids))


def _reversed(number: int) -> int:
    """Returns what Java's `Math.abs(Integer.reverse(number))` does, which is negative for the lowest int."""
    value = int(f"{number:032b}"[::-1], 2)
    return abs(value - (1 << 32)) if value > 1 << 31 else value if value < 1 << 31 else -value


@cache
def filler() -> Array:
    """Returns uint8[2**20], the text whose parts are the `extra` fields.

    Six characters are made of each random int by remainders of 26, which for a negative int precede the letter a.
    """
    groups = -(-FILLER_LENGTH // _LETTERS_PER_INT)
    seed = Draws(np.arange(-groups, 0) - (1 << 32))
    rest = (seed.word(0) >> np.uint64(32)).astype(np.uint32).view(np.int32).astype(np.int64)
    text = np.empty((groups, _LETTERS_PER_INT), dtype=np.uint8)
    for i in range(_LETTERS_PER_INT):
        quotient = np.sign(rest) * (np.abs(rest) // _LETTERS)
        text[:, i] = ord("a") + (rest - quotient * _LETTERS)
        rest = quotient
    return text.ravel()[:FILLER_LENGTH].copy()


def parts_of_filler(starts: Array, lengths: Array) -> pa.StringArray:
    """Returns parts of the filler. The longest of them must fit behind every start."""
    if len(lengths) and int(lengths.min()) > _INLINE_LENGTH and _casts_views():
        return _viewed(starts, lengths).cast(pa.string())
    longest = int(lengths.max(initial=0))
    rows = _windows(longest)[starts] if longest else np.empty((len(starts), 0), dtype=np.uint8)
    return array_of(offsets_of(lengths), rows[np.arange(longest) < lengths[:, None]])


def _viewed(starts: Array, lengths: Array) -> pa.Array:
    """Returns a view of strings: per text its length, its first four bytes, the buffer's number and the start."""
    views = np.zeros((len(starts), 4), dtype=np.int32)
    views[:, 0] = lengths
    views[:, 1] = _prefixes()[starts]
    views[:, 3] = starts
    return pa.Array.from_buffers(pa.string_view(), len(starts), [None, pa.py_buffer(views), pa.py_buffer(filler())])


@cache
def _casts_views() -> bool:
    """True if this version of Arrow converts views of strings to strings, which is the fastest way to copy parts."""
    try:
        _viewed(np.zeros(1, np.int64), np.full(1, 20)).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True


@cache
def _prefixes() -> Array:
    """Returns int32[2**20 - 3], the four bytes at every position of the filler."""
    return np.ascontiguousarray(_windows(4)).view(np.int32).ravel()


def _windows(length: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(filler(), length)
