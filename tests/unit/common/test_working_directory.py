from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from flinkpy.common.working_directory import WorkingDirectory


def test_processes_that_start_together_leave_each_other_their_directories(tmp_path):
    """Each removes what killed ones have left; what another is just making is not that."""

    def open_many(_: int) -> list[WorkingDirectory]:
        return [WorkingDirectory.open(None, str(tmp_path), "taskexecutor") for _ in range(25)]

    with ThreadPoolExecutor(8) as threads:
        opened = [directory for directories in threads.map(open_many, range(8)) for directory in directories]
    assert [directory.path for directory in opened if not directory.path.is_dir()] == []
    for directory in opened:
        directory.close()
    assert list(tmp_path.iterdir()) == []
