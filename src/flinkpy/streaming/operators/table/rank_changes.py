"""folded_changes: the changes of ranked lists between the beginning and the end of a mini-batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flinkpy.streaming.operators.table.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


@dataclass(frozen=True, slots=True)
class RankedElements:
    """The elements of sorted lists that have a rank, list after list.

    Attributes:
        keys, ranks, elements: int64[n]: the list, the rank in it, and the element.
    """

    keys: np.ndarray
    ranks: np.ndarray
    elements: np.ndarray

    def part(self, chosen: np.ndarray) -> RankedElements:
        return RankedElements(self.keys[chosen], self.ranks[chosen], self.elements[chosen])


def folded_changes(
    before: RankedElements,
    after: RankedElements,
    by_rank: bool,
    identities: np.ndarray | None,
    updates_rows: bool,
    generate_update_before: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the kinds, elements and ranks of changes: deletions, then updates, then insertions.

    Args:
        by_rank: True if a rank has an update when another element gets it.
        identities: one number per element, equal for elements that are versions of one row; None if none are.
        updates_rows: True if a row whose version changes is updated; False if its versions are equal rows.
    """
    if by_rank:
        old_place, new_place = _matched(_pairs(before.keys, before.ranks), _pairs(after.keys, after.ranks))
    else:
        elements = np.concatenate([before.elements, after.elements])
        names = elements if identities is None else identities[elements]
        old_place, new_place = _matched(
            *_occurrences(np.concatenate([before.keys, after.keys]), names, len(before.keys))
        )
    differs = before.elements[old_place] != after.elements[new_place]
    if identities is not None and not updates_rows:
        differs &= identities[before.elements[old_place]] != identities[after.elements[new_place]]
    gone = before.part(np.delete(np.arange(len(before.keys)), old_place))
    new = after.part(np.delete(np.arange(len(after.keys)), new_place))
    old, updated = before.part(old_place[differs]), after.part(new_place[differs])
    kinds, elements, ranks = _updates(old, updated, generate_update_before)
    return (
        np.concatenate([np.full(len(gone.keys), DELETE), kinds, np.full(len(new.keys), INSERT)]).astype(np.int8),
        np.concatenate([gone.elements, elements, new.elements]),
        np.concatenate([gone.ranks, ranks, new.ranks]),
    )


def _updates(
    old: RankedElements, new: RankedElements, generate_update_before: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not generate_update_before:
        return np.full(len(new.keys), UPDATE_AFTER), new.elements, new.ranks
    return (
        np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER]), len(new.keys)),
        np.stack([old.elements, new.elements], axis=1).ravel(),
        np.stack([old.ranks, new.ranks], axis=1).ravel(),
    )


def _pairs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns int64[n]: one number per pair of numbers, which are not negative and below 2**31."""
    return (one << np.int64(32)) | other


def _occurrences(keys: np.ndarray, names: np.ndarray, num_before: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns one number per key, name and how often both came before, for the first rows and for the others."""
    _, dense = np.unique(names, return_inverse=True)
    _, pairs = np.unique(_pairs(keys, dense), return_inverse=True)
    parts = []
    for part in (pairs[:num_before], pairs[num_before:]):
        order = np.argsort(part, kind="stable")
        in_order = part[order]
        first = np.searchsorted(in_order, in_order)
        numbers = np.empty(len(part), dtype=np.int64)
        numbers[order] = _pairs(in_order, np.arange(len(part)) - first)
        parts.append(numbers)
    return parts[0], parts[1]


def _matched(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places in both of the numbers that both have. Neither has one twice. Places in `after` ascend."""
    order = np.argsort(before)
    places = np.searchsorted(before, after, sorter=order)
    known = np.flatnonzero(places < len(before))
    known = known[before[order[places[known]]] == after[known]]
    return order[places[known]], known
