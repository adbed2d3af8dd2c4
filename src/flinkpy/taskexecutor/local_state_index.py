"""LocalStateIndex: which files of checkpoints have a copy on this host's disk, and until when a copy is kept.

```
  written for checkpoint n --> acknowledged with n --> n is completed: kept until a later one is
          |                        |
          +---- n is aborted ------+--> dropped, unless a checkpoint that is kept refers to it
```

A file written for one checkpoint may be part of later ones (an incremental backend), so what counts is what each
acknowledged state refers to. Kept per owner: a subtask, whatever attempt of it. Looked up by the path of the original,
so a copy serves whichever subtask of the job is restored here.

Pure. Source: org.apache.flink.runtime.state.TaskLocalStateStoreImpl. Differs: one index per job, by file and not by
checkpoint; not kept over a restart of the process.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path


class LocalStateIndex:
    """Thread: one at a time."""

    def __init__(self) -> None:
        self._copies: dict[str, Path] = {}
        #: By owner and checkpoint, the originals that are to be kept.
        self._kept: dict[Hashable, dict[int, set[str]]] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def find(self, original: str) -> Path | None:
        return self._copies.get(original)

    def add(self, owner: Hashable, checkpoint_id: int, original: str, copy: Path) -> Path | None:
        """A copy was written; the one that it replaces is returned, to be deleted."""
        replaced = self._copies.get(original)
        self._copies[original] = copy
        self._kept.setdefault(owner, {}).setdefault(checkpoint_id, set()).add(original)
        return replaced if replaced != copy else None

    def acknowledged(self, owner: Hashable, checkpoint_id: int, originals: Iterable[str]) -> list[Path]:
        """The state of the checkpoint refers to `originals`. Returns copies that are to be deleted."""
        self._kept.setdefault(owner, {})[checkpoint_id] = {path for path in originals if path in self._copies}
        return self._unused()

    def completed(self, owner: Hashable, checkpoint_id: int) -> list[Path]:
        """Older ones will not be restored any more. Returns copies that are to be deleted."""
        kept = self._kept.get(owner, {})
        for older in [known for known in kept if known < checkpoint_id]:
            del kept[older]
        return self._unused()

    def aborted(self, owner: Hashable, checkpoint_id: int) -> list[Path]:
        """Returns copies that are to be deleted."""
        self._kept.get(owner, {}).pop(checkpoint_id, None)
        return self._unused()

    def restored(self, owner: Hashable, checkpoint_id: int) -> list[Path]:
        """A new attempt starts from that checkpoint: there is no other way back to any other one. Returns copies that
        are to be deleted."""
        kept = self._kept.get(owner)
        if kept is not None:
            self._kept[owner] = {known: paths for known, paths in kept.items() if known == checkpoint_id}
        return self._unused()

    def drop(self, original: str) -> Path | None:
        """The copy is of no use."""
        for kept in self._kept.values():
            for paths in kept.values():
                paths.discard(original)
        return self._copies.pop(original, None)

    def _unused(self) -> list[Path]:
        used = {path for kept in self._kept.values() for paths in kept.values() for path in paths}
        return [self._copies.pop(path) for path in list(self._copies) if path not in used]

    def validate(self) -> None:
        """Assert every invariant."""
        used = {path for kept in self._kept.values() for paths in kept.values() for path in paths}
        assert used == set(self._copies), "a copy is kept exactly as long as a checkpoint refers to it"
