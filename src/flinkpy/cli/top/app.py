"""TopApp: the live view, by textual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Static
from textual.worker import get_current_worker

from flinkpy.cli.top.snapshot import JOB_ORDERS, ClusterSnapshot, ordered
from flinkpy.cli.top.tables import (
    EXECUTOR_COLUMNS,
    JOB_COLUMNS,
    TEXT_COLUMNS,
    VERTEX_COLUMNS,
    cluster_line,
    executor_row,
    job_lines,
    job_row,
    vertex_row,
)
from flinkpy.common.errors import FlinkError

Table = DataTable[Text]


class TopApp(App[None]):
    """Shows the jobs and TaskExecutors of a cluster, and on demand the vertices of one job.

    Args:
        collect: returns a snapshot, or raises a FlinkError. It is called on a thread, one call at a time.
        interval_s: time between two snapshots.
    """

    TITLE = "flinkpy top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #cluster { height: 1; text-style: bold; }
    #problem { height: auto; color: ansi_red; display: none; }
    #job { height: 3; display: none; }
    DataTable { height: auto; max-height: 1fr; }
    #vertices { display: none; }
    #executors { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("enter", "open", "Vertices", priority=True),
        Binding("escape,backspace", "close_job", "Back"),
        Binding("p", "pause", "Pause"),
        Binding("d", "theme", "Dark/light"),
    ]

    def __init__(self, collect: Callable[[], ClusterSnapshot], interval_s: float) -> None:
        # The theme has the colours of the terminal, whether it is dark or light.
        super().__init__(ansi_color=True)
        self._collect = collect
        self._interval_s = interval_s
        self.snapshot: ClusterSnapshot | None = None
        self.order = next(iter(JOB_ORDERS))
        self.is_paused = False
        self._job_id: str | None = None
        self._is_collecting = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(id="cluster")
            yield Static(id="problem", markup=False)
            yield Static(id="job", markup=False)
            yield _table("jobs", JOB_COLUMNS)
            yield _table("vertices", VERTEX_COLUMNS)
            yield _table("executors", EXECUTOR_COLUMNS)
        yield Footer()

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self.query_one("#executors", DataTable).can_focus = False
        self.query_one("#jobs", DataTable).focus()
        self.set_interval(self._interval_s, self._refresh)
        self._refresh()

    # -- actions

    def action_sort(self) -> None:
        names = list(JOB_ORDERS)
        self.order = names[(names.index(self.order) + 1) % len(names)]
        self._show()

    def action_open(self) -> None:
        """Shows the vertices of the job under the cursor."""
        table = self.query_one("#jobs", DataTable)
        if self._job_id is None and table.row_count:
            key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
            self._job_id = key
            self._show()

    def action_close_job(self) -> None:
        self._job_id = None
        self._show()

    def action_pause(self) -> None:
        self.is_paused = not self.is_paused
        self._show()

    def action_theme(self) -> None:
        self.theme = "ansi-light" if self.theme == "ansi-dark" else "ansi-dark"

    # -- snapshots

    def _refresh(self) -> None:
        if not self.is_paused and not self._is_collecting:
            self._is_collecting = True
            self.run_worker(self._collect_once, thread=True)

    def _collect_once(self) -> None:
        """Collects a snapshot. Thread: a worker."""
        worker = get_current_worker()
        try:
            snapshot, problem = self._collect(), ""
        except FlinkError as error:
            snapshot, problem = None, f"The cluster does not answer: {error}"
        if not worker.is_cancelled:
            self.call_from_thread(self._on_collected, snapshot, problem)

    def _on_collected(self, snapshot: ClusterSnapshot | None, problem: str) -> None:
        self._is_collecting = False
        label = self.query_one("#problem", Static)
        label.display = bool(problem)
        label.update(problem)
        if snapshot is not None:
            self.snapshot = snapshot
        self._show()

    def _show(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        state = "PAUSED " if self.is_paused else ""
        order = "" if self._job_id is not None else f"   by {self.order}"
        self.query_one("#cluster", Static).update(Text(f"{state}{cluster_line(snapshot)}{order}", no_wrap=True))
        job = None if self._job_id is None else snapshot.job(self._job_id)
        if job is None:
            self._job_id = None
        is_open = job is not None
        self.query_one("#jobs", DataTable).display = not is_open
        self.query_one("#vertices", DataTable).display = is_open
        self.query_one("#job", Static).display = is_open
        if job is not None:
            self.query_one("#job", Static).update(Text(job_lines(job, now_ms=snapshot.now_ms), no_wrap=True))
            rows = ((one.totals.id, vertex_row(one)) for one in job.vertices)
            _fill(self.query_one("#vertices", DataTable), rows)
        else:
            jobs = ordered(snapshot.jobs, self.order)
            _fill(self.query_one("#jobs", DataTable), ((one.job_id, job_row(one)) for one in jobs))
        executors = snapshot.task_executors
        self.query_one("#executors", DataTable).display = executors is not None
        _fill(self.query_one("#executors", DataTable), ((one.id, executor_row(one)) for one in executors or ()))


def _table(identifier: str, columns: Sequence[str]) -> Table:
    table: Table = DataTable(id=identifier, cursor_type="row", zebra_stripes=False, cell_padding=1)
    for column in columns:
        table.add_column(Text(column, justify="left" if column in TEXT_COLUMNS else "right"), key=column)
    return table


def _fill(table: Table, rows: Iterable[tuple[str, list[Text]]]) -> None:
    """Replaces the rows. The cursor stays at the row where it was."""
    at = None
    if table.row_count:
        at = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
    offset = table.scroll_offset
    table.clear()
    position = 0
    for number, (key, cells) in enumerate(rows):
        table.add_row(*cells, key=key)
        if key == at:
            position = number
    if table.row_count:
        table.move_cursor(row=position, scroll=False)
        table.scroll_to(offset.x, offset.y, animate=False)
