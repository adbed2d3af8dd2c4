"""A restored enumerator learns which splits running readers got after its checkpoint, and assigns the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flinkpy.connectors.split_enumerator import StaticEnumeratorState, StaticSplitEnumerator


def split(split_id: str) -> Any:
    return SimpleNamespace(split_id=split_id)


def restored(state: StaticEnumeratorState | None) -> StaticSplitEnumerator:
    return StaticSplitEnumerator(SimpleNamespace(), list, state=state)  # type: ignore[arg-type]


def test_adopted_splits_are_not_assigned_again() -> None:
    enumerator = restored(StaticEnumeratorState(True, (split("a"), split("b"), split("c"))))
    assert enumerator.adopt_splits([split("b")])
    assert [one.split_id for one in enumerator.remaining] == ["a", "c"]


def test_splits_that_the_checkpoint_does_not_list_are_refused() -> None:
    enumerator = restored(StaticEnumeratorState(True, (split("a"),)))
    assert not enumerator.adopt_splits([split("b")])
    assert [one.split_id for one in enumerator.remaining] == ["a"]


def test_splits_are_refused_if_they_have_to_be_listed_again() -> None:
    assert not restored(None).adopt_splits([split("a")])
