"""A sink with a global committer: parallel writers, and one commit per checkpoint."""

from __future__ import annotations

from operator_fakes import GlobalSinkLife, SinkLife
from test_sink_operator import CHECKPOINTED, TwoPhaseSink

from flinkpy.records.batch import Batch


def life_of(sink, restored=None, configuration=CHECKPOINTED):
    return GlobalSinkLife(sink, 2, restored, configuration)


def write(life, subtask, *rows):
    life.writers[subtask].operator.process_batch(Batch(list(rows)))


def test_committables_of_all_writers_are_committed_together_when_the_checkpoint_is_complete():
    sink = TwoPhaseSink()
    life = life_of(sink)
    write(life, 0, 2)
    write(life, 1, 4, 6)
    life.checkpoint(1)
    write(life, 0, 8)
    life.checkpoint(2)
    assert sink.calls == []
    life.committer.operator.notify_checkpoint_complete(1)
    assert sink.calls == [[2, 4, 6]]
    life.committer.operator.notify_checkpoint_complete(2)
    assert sink.calls == [[2, 4, 6], [8]]


def test_writers_do_not_commit():
    sink = TwoPhaseSink()
    life = life_of(sink)
    write(life, 0, 2)
    life.checkpoint(1)
    for writer in life.writers:
        writer.operator.notify_checkpoint_complete(1)
    assert sink.calls == []
    assert sink.log.count(("complete", 1)) == 2


def test_committables_of_the_restored_checkpoint_are_committed_at_once():
    sink = TwoPhaseSink()
    life = life_of(sink)
    write(life, 0, 2, 3)
    write(life, 1, 4)
    states = life.checkpoint(1)
    again = TwoPhaseSink()
    restored = life_of(again, states)
    assert again.calls == [[2, 4]]
    restored.finish()
    restored.checkpoint(2)
    restored.committer.operator.notify_checkpoint_complete(2)
    assert again.calls == [[2, 4], [3]], "the state of the first writer was restored too"


def test_the_final_checkpoint_commits_the_end_of_the_input():
    sink = TwoPhaseSink()
    life = life_of(sink)
    write(life, 0, 2)
    write(life, 1, 3)
    life.finish()
    assert sink.calls == []
    life.checkpoint(1)
    life.committer.operator.notify_checkpoint_complete(1)
    assert sink.calls == [[2, 3]]


def test_a_job_without_checkpoints_commits_once_at_its_end():
    sink = TwoPhaseSink()
    life = life_of(sink, configuration={})
    write(life, 0, 2)
    write(life, 1, 3)
    life.finish()
    assert sink.calls == [[2, 3]]


def test_committables_of_savepoints_whose_writers_committed_are_committed():
    sink = TwoPhaseSink()
    old = SinkLife(sink, configuration=CHECKPOINTED)
    old.write(2)
    state = old.checkpoint(1)
    again = TwoPhaseSink()
    life = life_of(again, [state, None, None])
    states = life.checkpoint(2)
    life.committer.operator.notify_checkpoint_complete(2)
    assert again.calls == [[2]]
    last = TwoPhaseSink()
    life_of(last, states)
    assert last.calls == [[2]], "only the committer has it now"


def test_a_finished_committer_commits_what_its_checkpoint_contains():
    sink = TwoPhaseSink()
    life = life_of(sink)
    write(life, 0, 2)
    *_, state = life.checkpoint(1)
    again = TwoPhaseSink()
    finished = GlobalSinkLife(again, 0, [state], CHECKPOINTED)
    assert again.calls == [[2]]
    finished.committer.operator.close()
    assert again.log == ["committer closed"]
