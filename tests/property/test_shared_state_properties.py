"""No shared file in use is ever deleted, in any order of completions, aborts, replacements and restarts."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from flinkpy.checkpoint.shared_state_registry import SharedStateRegistry


class SharedFilesMachine(RuleBasedStateMachine):
    """The oracle knows the files that each existing checkpoint needs."""

    pending = Bundle("pending")

    def __init__(self):
        super().__init__()
        self.registry = SharedStateRegistry()
        self.next_id = 1
        self.next_file = 0
        self.disk = set()
        self.foreign = set()
        self.needs = {}  # checkpoint id -> files
        self.completed = []
        self.deleted = set()

    def delete(self, paths):
        needed = set().union(*self.needs.values()) if self.needs else set()
        assert not set(paths) & needed, "a file that is needed was deleted"
        assert not set(paths) & self.foreign, "a file of the user was deleted"
        assert not set(paths) & self.deleted, "a file was deleted twice"
        assert len(paths) == len(set(paths))
        self.deleted.update(paths)
        self.disk.difference_update(paths)

    def upload(self, count):
        files = {f"/shared/{self.next_file + number}" for number in range(count)}
        self.next_file += count
        self.disk |= files
        return files

    @precondition(lambda self: not self.needs)
    @rule(count=st.integers(0, 3), is_claimed=st.booleans())
    def restore(self, count, is_claimed):
        files = {f"/foreign/{self.next_id}-{number}" for number in range(count)}
        if is_claimed:
            self.disk |= files
        else:
            self.foreign |= files
        self.registry.register(self.next_id, files, is_owned=is_claimed)
        self.needs[self.next_id] = files
        self.completed.append(self.next_id)
        self.next_id += 1

    @rule(target=pending, uploads=st.integers(0, 3), data=st.data())
    def trigger(self, uploads, data):
        """Triggers a checkpoint. It may reuse the files of the last completed one."""
        last = sorted(self.needs[self.completed[-1]]) if self.completed else []
        reused = set(data.draw(st.lists(st.sampled_from(last), unique=True))) if last else set()
        checkpoint_id, self.next_id = self.next_id, self.next_id + 1
        files = self.upload(uploads) | reused
        self.needs[checkpoint_id] = files
        # Acknowledgements come one after the other, some of them twice.
        for path in sorted(files):
            self.registry.register(checkpoint_id, [path])
        self.registry.register(checkpoint_id, sorted(files)[:1])
        return checkpoint_id

    @rule(checkpoint_id=consumes(pending))
    def abort(self, checkpoint_id):
        if checkpoint_id in self.needs:
            del self.needs[checkpoint_id]
            self.delete(self.registry.unregister(checkpoint_id))

    @rule(checkpoint_id=consumes(pending), retained=st.integers(1, 3))
    def complete(self, checkpoint_id, retained):
        """Completes a checkpoint. This ends earlier pending ones, and keeps `retained` completed ones."""
        if checkpoint_id not in self.needs:
            return
        for earlier in [c for c in self.needs if c < checkpoint_id and c not in self.completed]:
            del self.needs[earlier]
            self.delete(self.registry.unregister(earlier))
        self.registry.register(checkpoint_id, self.needs[checkpoint_id])
        self.completed.append(checkpoint_id)
        while len(self.completed) > retained:
            replaced = self.completed.pop(0)
            del self.needs[replaced]
            self.delete(self.registry.unregister(replaced))

    @rule(count=st.integers(1, 2))
    def late_acknowledgement(self, count):
        """Delivers a late acknowledgement of an ended checkpoint, with its own files and files that others may need."""
        files = self.upload(count)
        known = set().union(*self.needs.values()) if self.needs else set()
        self.delete(self.registry.deletable(files | known))

    @rule()
    def restart(self):
        """Starts a new JobMaster, which knows only the completed checkpoints and deletes all other files."""
        before = self.registry
        self.registry = SharedStateRegistry()
        self.needs = {c: files for c, files in self.needs.items() if c in self.completed}
        for checkpoint_id, files in self.needs.items():
            self.registry.register(checkpoint_id, files - self.foreign)
            self.registry.register(checkpoint_id, files & self.foreign, is_owned=False)
        assert before is not self.registry
        self.delete(self.registry.deletable(self.disk))

    @invariant()
    def nothing_is_left_over_for_ever(self):
        needed = set().union(*self.needs.values()) if self.needs else set()
        assert needed - self.foreign <= self.disk
        assert self.disk <= needed
        self.registry.validate()
        for path in needed:
            assert self.registry.users_of(path) == {c for c, files in self.needs.items() if path in files}


TestSharedFiles = SharedFilesMachine.TestCase
TestSharedFiles.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
