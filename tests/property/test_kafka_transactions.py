"""The names of a sink's transactions show which of them belong to a checkpoint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.connectors.kafka.transactions import (
    IDS_PER_SUBTASK,
    LingeringTransactions,
    TransactionName,
    parse_transactional_id,
)

CHECKPOINTS = st.integers(0, 10**6)
HALF = IDS_PER_SUBTASK // 2


class FakeTransactions:
    """A broker's list of open transactions."""

    def __init__(self, *transactional_ids):
        self.open = list(transactional_ids)

    def list_open(self, prefix):
        return [found for found in self.open if found.startswith(prefix)]

    def fence(self, transactional_id, timeout_ms):
        self.open.remove(transactional_id)


@given(CHECKPOINTS, st.integers(1, HALF), st.integers(0, HALF - 1))
def test_a_name_shows_if_a_transaction_began_after_a_checkpoint(checkpoint_id, after, before):
    def read(number):
        return parse_transactional_id("p", TransactionName("p", 3, number).transactional_id)

    assert read(checkpoint_id + after).is_newer_than(checkpoint_id)
    if checkpoint_id >= before:
        assert not read(checkpoint_id - before).is_newer_than(checkpoint_id)


@given(st.data())
def test_a_restored_job_aborts_exactly_the_transactions_not_in_its_checkpoint(data):
    """A job is killed and restored with another parallelism.

    All transactions of its checkpoint stay open, and all others are aborted, in whichever order the subtasks look.
    """
    old_parallelism, new_parallelism = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    restored = data.draw(st.integers(1, 3000))
    in_checkpoint, after = [], []
    for subtask in range(old_parallelism):
        # Each began after an earlier checkpoint, but not always after the last one: checkpoints may be declined.
        for behind in data.draw(st.sets(st.integers(max(0, restored - 50), restored - 1), max_size=3)):
            in_checkpoint.append(TransactionName("p-q", subtask, behind + 1).transactional_id)
        # The job had completed any number of further checkpoints. A name has one open transaction at a time.
        for behind in data.draw(st.sets(st.integers(restored, restored + 5000), max_size=3)):
            after.append(TransactionName("p-q", subtask, behind + 1).transactional_id)
    after = sorted(set(after) - set(in_checkpoint))
    strangers = ["p-q-other-1-1", "p-1-1", "p-qx-0-5"]
    transactions = FakeTransactions(*in_checkpoint, *after, *strangers)
    subtasks = [
        LingeringTransactions(transactions, {"p-q"}, subtask, new_parallelism, restored)
        for subtask in data.draw(st.permutations(range(new_parallelism)))
    ]
    aborted = [transactional_id for subtask in subtasks for transactional_id in subtask.abort_newer()]
    assert set(in_checkpoint) <= set(transactions.open), "the restored job still commits them"
    # Every subtask has committed the restored transactions, and a checkpoint has completed.
    transactions.open = [found for found in transactions.open if found not in in_checkpoint]
    begun = [
        TransactionName("p-q", subtask, restored + number).transactional_id
        for subtask in range(new_parallelism)
        for number in (1, 2)
    ]
    transactions.open += [found for found in begun if found not in transactions.open]
    aborted += [transactional_id for subtask in subtasks for transactional_id in subtask.abort_rest()]
    assert sorted(aborted) == after
    assert sorted(transactions.open) == sorted(begun + strangers)


def test_a_job_without_a_checkpoint_aborts_exactly_the_transactions_of_its_prefix():
    transactions = FakeTransactions("p-0-7", "p-1-999", "p-x-0-7", "pp-0-7", "p-0", "p-0-7-0", "p-a-b")
    subtasks = [LingeringTransactions(transactions, {"p"}, subtask, 2, None) for subtask in range(2)]
    for subtask in subtasks:
        subtask.abort_newer()
    left = ["p-x-0-7", "pp-0-7", "p-0", "p-0-7-0", "p-a-b"]
    assert transactions.open == left
    transactions.open.append("p-0-1")  # a transaction of the new job
    assert [subtask.abort_rest() for subtask in subtasks] == [[], []]
    assert transactions.open == [*left, "p-0-1"]


def test_names_are_reused_after_the_last_number():
    names = {TransactionName("p", 0, number).transactional_id for number in range(5000)}
    assert len(names) == IDS_PER_SUBTASK
