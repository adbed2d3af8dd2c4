"""ThreadSampler: samples the stacks of task threads while somebody looks at a flame graph.

```
  RequestThreadSamples --begin--> [open samplings] <--tick-- sampler thread --result--> Future[RawSamples] --fold-->
```

The sampler has a thread only while a sampling is open. It keeps the interpreter from the tasks for as little as it can:
a sample is a tuple of numbers, in which the names of functions and lines are looked up after the last sample. All
samplings share the ticks, and a stack is read once per tick. If ticks take more of the thread's time than `MAX_LOAD`,
they become rarer.

A sample is *on CPU* if one of these is true:

- The thread has used the CPU shortly before. A tick looks twice: at the CPU clocks of the threads, and `WINDOW_S` later
  at the clocks and the stacks. The state of the thread alone would not tell: the sampler holds the interpreter when it
  reads a stack, so a thread that runs Python code waits for it then, like one that sleeps.
- Its innermost frame is between two instructions of Python code (`CodeNames.is_executing`).
- The kernel calls it runnable: it runs code without the interpreter, or would if another process let it.

Source: org.apache.flink.runtime.taskexecutor.ThreadInfoSampleService.
Differs: samplings share the samples, and the rate is bounded by its cost.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import CodeType, FrameType

from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import ExternalError, UserError
from flinkpy.common.task_threads import task_of
from flinkpy.taskexecutor.code_names import CodeNames, FrameName

#: The share of a CPU that the sampler thread may use. Its disturbance of other threads comes on top.
MAX_LOAD = 0.02
#: The time over which the CPU clock tells whether a thread runs: some times the interval in which threads that want to
#: run Python code take turns (0.5 ms).
WINDOW_S = 0.002
#: A thread runs if it has used this share of the window, divided by the number of threads that take turns.
RUNNING_SHARE = 0.5
#: A thread takes turns if it has used this share of the window.
_TURNS_SHARE = 0.05
#: Threads that have used a smaller share of the time since the last tick are not looked up in /proc: they wait. To
#: look lets other threads have the interpreter, so one that has just slept and waits for it would be called runnable.
_ACTIVE_SHARE = 0.1
#: How often the sampler looks for threads that tasks have started meanwhile.
_FIND_THREADS_S = 1.0
#: How much longer than planned a sampling may take because of its cost. It ends with fewer samples then.
STRETCH = 1.5
#: Ticks that are due within this time are one.
_SAME_TICK_S = 0.002

#: Bounds of what one caller may ask for, so that no sampling runs for long or needs much memory.
MAX_SAMPLES = 10_000
MAX_DEPTH = 1_000
MAX_DURATION_MS = 300_000
#: Samplings that may be open at once. Each vertex that somebody looks at needs one for a few seconds.
MAX_SAMPLINGS = 32
#: Different stacks that one sampling keeps; the others are counted without their frames. A stack has about 2 kB.
MAX_STACKS = 4_000

_OTHER_STACKS = FrameName("further stacks", 0, pb.CODE_RUNTIME)
_OUTER_FRAMES = FrameName("outer frames", 0, pb.CODE_RUNTIME)

#: A stack: the id of each code object and the position in it, innermost frame first. A last 0: there are outer frames.
Stack = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How often and how deep to look."""

    num_samples: int
    delay_ms: int
    max_depth: int

    @classmethod
    def of(cls, request: pb.ThreadSamplesRequest) -> SamplingOptions:
        """Raises: UserError, which names the bound that the request exceeds."""
        for name, value, limit in (
            ("num_samples", request.num_samples, MAX_SAMPLES),
            ("delay_ms", request.delay_ms, MAX_DURATION_MS),
            ("max_depth", request.max_depth, MAX_DEPTH),
            ("num_samples * delay_ms", request.num_samples * request.delay_ms, MAX_DURATION_MS),
        ):
            if not 1 <= value <= limit:
                raise UserError(f"{name} is {value}, but must be from 1 to {limit}", details={"field": name})
        return cls(request.num_samples, request.delay_ms, request.max_depth)

    @property
    def delay_s(self) -> float:
        return self.delay_ms / 1000

    @property
    def limit_s(self) -> float:
        """The time after which the sampling ends in any case."""
        return self.num_samples * self.delay_s * STRETCH + 2 * WINDOW_S


@dataclass(slots=True)
class RawSamples:
    """The samples of one sampling, before names are looked up.

    Attributes:
        codes: the code objects by their ids. They keep the ids valid.
        counts: by group and stack: how often it was on CPU, and how often the clock did not show it.
        left_out: the counts of stacks above `MAX_STACKS`, by group.
        tasks: the tasks of which there are samples.
    """

    start_ms: int
    end_ms: int = 0
    codes: dict[int, CodeType] = field(default_factory=dict)
    counts: dict[str, dict[Stack, list[int]]] = field(default_factory=dict)
    left_out: dict[str, list[int]] = field(default_factory=dict)
    tasks: set[str] = field(default_factory=set)
    num_stacks: int = 0

    def add(self, group: str, stack: Stack, is_on_cpu: bool) -> None:
        counts = self.counts.setdefault(group, {})
        count = counts.get(stack)
        if count is None:
            if self.num_stacks >= MAX_STACKS:
                count = self.left_out.setdefault(group, [0, 0])
            else:
                self.num_stacks += 1
                count = counts[stack] = [0, 0]
        count[not is_on_cpu] += 1


class _Sampling:
    """An open sampling. `groups` has the group of each task."""

    def __init__(self, groups: Mapping[str, str], options: SamplingOptions, now_s: float, now_ms: int) -> None:
        self.groups = groups
        self.options = options
        self.result: Future[RawSamples] = Future()
        self.samples = RawSamples(now_ms)
        self.num_taken = 0
        self.due_s = now_s
        self.limit_s = now_s + options.limit_s


class _SampledThread:
    """A thread of a task, with its CPU clock."""

    __slots__ = ("_status", "clock", "cpu_ns", "elapsed_ns", "ident", "read_ns", "task", "thread")

    def __init__(self, thread: threading.Thread, task: str) -> None:
        assert thread.ident is not None and thread.native_id is not None
        self.thread = thread
        self.task = task
        self.ident = thread.ident
        # Linux's clock of a thread. pthread_getcpuclockid is undefined for a thread that has ended; this clock fails.
        self.clock = (~thread.native_id << 3) | 6
        self.cpu_ns = self.read_ns = 0
        #: The time between the last two calls of `read_clock`.
        self.elapsed_ns = 0
        self._status = f"/proc/self/task/{thread.native_id}/stat"
        self.read_clock()

    def read_clock(self) -> int:
        """Returns the CPU time since the last call. 0 if the thread has ended."""
        try:
            now_ns = time.clock_gettime_ns(self.clock)
        except OSError:
            return 0
        used_ns, self.cpu_ns = now_ns - self.cpu_ns, now_ns
        read_ns = time.monotonic_ns()
        self.elapsed_ns, self.read_ns = read_ns - self.read_ns, read_ns
        return used_ns

    def is_runnable(self) -> bool:
        """True if the thread does not wait for anything but a CPU."""
        try:
            file = os.open(self._status, os.O_RDONLY)
        except OSError:
            return False
        try:
            # "pid (name) state ...", and a name may contain anything.
            return os.read(file, 512).rpartition(b") ")[2][:1] == b"R"
        except OSError:
            return False
        finally:
            os.close(file)


class ThreadSampler:
    """Samples threads for any number of callers. Thread: `begin` any; the samples are taken on the sampler's thread."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        #: Guards `_thread` and `_num_open`.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._num_open = 0
        #: Never set: to wait for it is to let time pass.
        self._never = threading.Event()
        self._begun: queue.SimpleQueue[_Sampling] = queue.SimpleQueue()

    @property
    def is_running(self) -> bool:
        """True while the sampler has a thread."""
        return self._thread is not None

    def begin(self, groups: Mapping[str, str], options: SamplingOptions) -> Future[RawSamples]:
        """Starts to sample the threads of tasks. A result that is cancelled ends its sampling.

        Args:
            groups: the group to which the samples of a task count, by the id of its execution attempt.

        Raises: ExternalError if too many samplings are open.
        """
        with self._lock:
            if self._num_open >= MAX_SAMPLINGS:
                raise ExternalError(f"{MAX_SAMPLINGS} flame graphs are being sampled in this TaskExecutor already")
            sampling = _Sampling(groups, options, time.monotonic(), self._clock.now_ms())
            self._num_open += 1
            self._begun.put(sampling)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="thread-sampler", daemon=True)
                self._thread.start()
        return sampling.result

    # -- sampler thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        open_samplings: list[_Sampling] = []
        try:
            self._sample_all(open_samplings)
        except BaseException as error:  # noqa: BLE001 - the callers get it; the tasks go on
            with self._lock:
                self._thread = None
                while not self._begun.empty():
                    open_samplings.append(self._begun.get())
                self._num_open = 0
            for sampling in open_samplings:
                if not sampling.result.done():
                    sampling.result.set_exception(error)

    def _sample_all(self, open_samplings: list[_Sampling]) -> None:
        """Samples until no sampling is open."""
        threads: list[_SampledThread] = []
        find_threads_at_s = 0.0
        earliest_s = 0.0
        while open_samplings or not self._may_end():
            due_s = max(earliest_s, min((each.due_s for each in open_samplings), default=0.0))
            wake_s = min([due_s, *(each.limit_s for each in open_samplings)])
            if self._accept(open_samplings, wake_s):
                find_threads_at_s = 0.0
                continue
            now_s = time.monotonic()
            if now_s >= find_threads_at_s:
                find_threads_at_s = now_s + _FIND_THREADS_S
                threads = _threads_of({task for each in open_samplings for task in each.groups})
            due = [each for each in open_samplings if each.due_s <= now_s + _SAME_TICK_S]
            if due and now_s >= earliest_s:
                began_ns = time.thread_time_ns()
                self._tick(threads, due, now_s)
                earliest_s = now_s + (time.thread_time_ns() - began_ns) / 1e9 / MAX_LOAD
            present = {each.task for each in threads}
            for sampling in list(open_samplings):
                has_ended = sampling.num_taken >= sampling.options.num_samples or now_s >= sampling.limit_s
                if has_ended or sampling.result.cancelled() or present.isdisjoint(sampling.groups):
                    open_samplings.remove(sampling)
                    self._end(sampling)

    def _accept(self, open_samplings: list[_Sampling], due_s: float) -> bool:
        """Waits until `due_s`, or returns True earlier if a sampling has begun."""
        pause_s = due_s - time.monotonic()
        try:
            sampling = self._begun.get(timeout=pause_s) if pause_s > 0 else self._begun.get_nowait()
        except queue.Empty:
            return False
        open_samplings.append(sampling)
        return True

    def _may_end(self) -> bool:
        with self._lock:
            if not self._begun.empty():
                return False
            self._thread = None
            return True

    def _end(self, sampling: _Sampling) -> None:
        with self._lock:
            self._num_open -= 1
        sampling.samples.end_ms = self._clock.now_ms()
        if sampling.result.set_running_or_notify_cancel():
            sampling.result.set_result(sampling.samples)

    def _tick(self, threads: list[_SampledThread], due: list[_Sampling], now_s: float) -> None:
        """Takes one sample of each thread for the samplings that are due."""
        wanted = [thread for thread in threads if any(thread.task in each.groups for each in due)]
        were_active = [thread.read_clock() >= _ACTIVE_SHARE * thread.elapsed_ns for thread in wanted]
        looked_s = time.monotonic()
        self._never.wait(WINDOW_S)
        used_ns = [thread.read_clock() for thread in wanted]
        frames = sys._current_frames()
        window_ns = (time.monotonic() - looked_s) * 1e9
        taking_turns = sum(used >= _TURNS_SHARE * window_ns for used in used_ns)
        running_ns = RUNNING_SHARE * window_ns / max(1, taking_turns)
        max_depth = max(each.options.max_depth for each in due)
        stacks = [_read_stack(frames.get(thread.ident), max_depth) for thread in wanted]
        del frames  # they keep the local variables of the tasks
        # Reading files lets other threads run, so it comes after the stacks.
        for thread, was_active, used, (stack, codes) in zip(wanted, were_active, used_ns, stacks, strict=True):
            if not stack or not thread.thread.is_alive():
                continue  # it has ended, and its ident may be that of another thread now
            is_on_cpu = used >= running_ns or (was_active and thread.is_runnable())
            for sampling in due:
                group = sampling.groups.get(thread.task)
                if group is None:
                    continue
                samples, depth = sampling.samples, sampling.options.max_depth
                for code in codes[:depth]:
                    samples.codes[id(code)] = code
                samples.add(group, stack if len(codes) <= depth else (*stack[: 2 * depth], 0), is_on_cpu)
                samples.tasks.add(thread.task)
        for sampling in due:
            sampling.num_taken += 1
            sampling.due_s = now_s + sampling.options.delay_s


def _threads_of(tasks: set[str]) -> list[_SampledThread]:
    found = []
    for thread in threading.enumerate():
        task = task_of(thread)
        if task in tasks and task is not None and thread.native_id is not None:
            found.append(_SampledThread(thread, task))
    return found


def _read_stack(frame: FrameType | None, max_depth: int) -> tuple[Stack, list[CodeType]]:
    """Returns the innermost frames of a stack, and their code objects. Empty without a frame."""
    stack: list[int] = []
    codes: list[CodeType] = []
    while frame is not None:
        if len(codes) >= max_depth:
            stack.append(0)
            break
        code = frame.f_code
        codes.append(code)
        stack.append(id(code))
        stack.append(frame.f_lasti)
        frame = frame.f_back
    return tuple(stack), codes


# -- after the last sample -----------------------------------------------------------------------------------------


def fold(samples: RawSamples, resource_id: str, names: CodeNames | None = None) -> pb.ThreadSamples:
    """Returns the samples with the names of their frames. Stacks that look the same become one. Thread: any."""
    names = names or CodeNames()
    table: dict[FrameName, int] = {}
    known: dict[tuple[int, int], int] = {}
    folded: dict[tuple[str, tuple[int, ...]], list[int]] = {}

    def position(name: FrameName) -> int:
        return table.setdefault(name, len(table))

    def frame(code_id: int, instruction: int) -> int:
        found = known.get((code_id, instruction))
        if found is None:
            found = known[code_id, instruction] = position(names.name(samples.codes[code_id], instruction))
        return found

    def add(group: str, frames: tuple[int, ...], on_cpu: int, off_cpu: int) -> None:
        count = folded.setdefault((group, frames), [0, 0])
        count[0] += on_cpu
        count[1] += off_cpu

    for group, counts in samples.counts.items():
        for stack, (on_cpu, unclear) in counts.items():
            pairs = list(zip(stack[::2], stack[1::2], strict=False))
            frames = [frame(code_id, instruction) for code_id, instruction in pairs]
            if len(stack) % 2:
                frames.append(position(_OUTER_FRAMES))
            is_executing = bool(pairs) and names.is_executing(samples.codes[pairs[0][0]], pairs[0][1])
            if is_executing:
                on_cpu, unclear = on_cpu + unclear, 0
            add(group, tuple(reversed(frames)), on_cpu, unclear)
    for group, (on_cpu, unclear) in samples.left_out.items():
        add(group, (position(_OTHER_STACKS),), on_cpu, unclear)
    return pb.ThreadSamples(
        resource_id=resource_id,
        start_timestamp_ms=samples.start_ms,
        end_timestamp_ms=samples.end_ms,
        num_subtasks=len(samples.tasks),
        frames=[name.to_proto() for name in table],
        stacks=_stacks(folded.items()),
    )


def _stacks(folded: Iterable[tuple[tuple[str, tuple[int, ...]], list[int]]]) -> list[pb.SampledStack]:
    return [
        pb.SampledStack(vertex_id=group, frames=frames, on_cpu=on_cpu, off_cpu=off_cpu)
        for (group, frames), (on_cpu, off_cpu) in folded
    ]
