"""The loop of pattern matching: runs an automaton over the sorted rows of many keys.

Because rows of a match follow one another without gaps and variables come in order, a partial match is its first row
and the number of rows of each variable. So there is no buffer of shared events with versions: the rows of variable v
begin after those of the variables before it.

Partial matches of a key are in a heap by their first row, as in Flink's queue. When several matches that begin with one
row end with the same row, their order in the heap decides which one is found, so the heap moves its elements as
java.util.PriorityQueue does. The search for new matches is an element, too, behind all others.

A complete match waits until no partial match that began earlier is left, because that one could skip it.

The loop is compiled by numba where it is installed. Otherwise, or if conditions need Python, the same code runs in
Python.

Source: org.apache.flink.cep.nfa.NFA, org.apache.flink.cep.nfa.aftermatch.*.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import numpy as np

from flinkpy.cep import condition_programs
from flinkpy.cep.condition_programs import evaluate
from flinkpy.cep.nfa_compiler import FINAL, TransitionAction

#: The kinds of conditions: no condition, a bit per row, a program, and a call of Python.
ALWAYS, MASK, PROGRAM, EXTERNAL = 0, 1, 2, 3
#: The results of `advance`.
DONE, NO_ELEMENT, FIRST_ELEMENT = 0, 1, 2
#: The codes of SkipMode.
TO_NEXT, PAST_LAST, TO_FIRST, TO_LAST = 0, 1, 2, 3
#: The first row of the search for new matches: behind all rows.
_NOT_BEGUN = 1 << 62
_PROCEED = int(TransitionAction.PROCEED)
_FINAL = FINAL


def _sift_up(heap: Any, size: Any, element: Any, starts: Any) -> None:
    """Adds an element to a heap of `size` elements."""
    k, key = size, starts[element]
    while k > 0:
        parent = (k - 1) >> 1
        if key >= starts[heap[parent]]:
            break
        heap[k] = heap[parent]
        k = parent
    heap[k] = element


def _sift_down(heap: Any, size: Any, k: Any, element: Any, starts: Any) -> None:
    """Puts an element at place k or below."""
    key, half = starts[element], size >> 1
    while k < half:
        child = 2 * k + 1
        if child + 1 < size and starts[heap[child]] > starts[heap[child + 1]]:
            child += 1
        if key <= starts[heap[child]]:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = element


def _prune(heap: Any, size: Any, starts: Any, limit: Any) -> Any:
    """Removes the elements that begin before row `limit`. Returns how many are left."""
    kept = 0
    for k in range(size):
        if starts[heap[k]] >= limit:
            heap[kept] = heap[k]
            kept += 1
    if kept < size:
        for k in range((kept >> 1) - 1, -1, -1):
            sift_down(heap, kept, k, heap[k], starts)
    return kept


def _holds(
    variable: Any,
    row: Any,
    start: Any,
    counts: Any,
    at: Any,
    memo: Any,
    kinds: Any,
    masks: Any,
    num_rows: Any,
    programs: Any,
    stack: Any,
) -> Any:
    """Returns 1 if the condition of a variable is true for a row, else 0. Knows its answers from `memo`."""
    known = memo[variable]
    if known >= 0:
        return known
    kind = kinds[variable]
    if kind == ALWAYS:
        answer = 1
    elif kind == MASK:
        answer = 1 if masks[variable * num_rows + row] else 0
    elif kind == PROGRAM:
        answer = evaluate(variable, row, start, counts, at, programs, stack)
    else:
        answer = ask(variable, row, start, counts, at)
    memo[variable] = answer
    return answer


def _applies(
    transition: Any,
    automaton: Any,
    row: Any,
    start: Any,
    counts: Any,
    at: Any,
    memo: Any,
    kinds: Any,
    masks: Any,
    num_rows: Any,
    programs: Any,
    stack: Any,
) -> Any:
    accepts, reject_first, rejects = automaton[4], automaton[5], automaton[6]
    for i in range(reject_first[transition], reject_first[transition + 1]):
        if holds(rejects[i], row, start, counts, at, memo, kinds, masks, num_rows, programs, stack):
            return False
    variable = accepts[transition]
    if variable < 0:
        return True
    return holds(variable, row, start, counts, at, memo, kinds, masks, num_rows, programs, stack) == 1


def _emit(
    row: Any,
    heap: Any,
    size: Any,
    starts: Any,
    done: Any,
    num_done: Any,
    done_starts: Any,
    done_counts: Any,
    num_variables: Any,
    skip_mode: Any,
    skip_variable: Any,
    matches: Any,
    match_counts: Any,
    num_matches: Any,
) -> Any:
    """Takes complete matches that no earlier partial match can skip, and prunes what each of them skips.

    Returns: the status, and the numbers of partial matches, complete matches and found matches.
    """
    while num_done > 0:
        element = done[0]
        begin = done_starts[element]
        if size > 0 and begin > starts[heap[0]]:
            break
        num_done -= 1
        if num_done > 0:
            sift_down(done, num_done, 0, done[num_done], done_starts)
        base = element * num_variables
        if skip_mode == TO_NEXT:
            limit = begin + 1
        elif skip_mode == PAST_LAST:
            limit = begin
            for v in range(num_variables):
                limit += done_counts[base + v]
        else:
            limit = begin
            for v in range(skip_variable):
                limit += done_counts[base + v]
            count = done_counts[base + skip_variable]
            if count == 0:
                return NO_ELEMENT, size, num_done, num_matches
            if skip_mode == TO_LAST:
                limit += count - 1
            if limit == begin:
                return FIRST_ELEMENT, size, num_done, num_matches
        size = prune(heap, size, starts, limit)
        num_done = prune(done, num_done, done_starts, limit)
        matches[2 * num_matches] = begin
        matches[2 * num_matches + 1] = row
        for v in range(num_variables):
            match_counts[num_matches * num_variables + v] = done_counts[base + v]
        num_matches += 1
    return DONE, size, num_done, num_matches


def _expire(heap: Any, size: Any, starts: Any, times: Any, now: Any, window_ms: Any, kept: Any) -> Any:
    """Removes partial matches that are too old. Returns how many are left."""
    count = 0
    for k in range(size):
        element = heap[k]
        start = starts[element]
        if start == _NOT_BEGUN or now - times[start] < window_ms:
            sift_up(kept, count, element, starts)
            count += 1
    for k in range(count):
        heap[k] = kept[k]
    return count


def _grown(array: Any, length: Any) -> Any:
    """Returns the array with at least this length."""
    if len(array) >= length:
        return array
    larger = np.zeros(max(2 * len(array), length), dtype=np.int64)
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


def _advance(
    ends: Any,
    first_new: Any,
    times: Any,
    can_begin: Any,
    automaton: Any,
    start_state: Any,
    num_variables: Any,
    kinds: Any,
    masks: Any,
    programs: Any,
    partial_ends: Any,
    partials: Any,
    partial_counts: Any,
    window_ms: Any,
    now: Any,
    skip_mode: Any,
    skip_variable: Any,
) -> Any:
    """Advances the partial matches of each key over its new rows.

    Args:
        ends: by key, where its rows end in the sorted rows.
        first_new: by key, its first row that was not processed before.
        times: by row, in ms.
        can_begin: by row, False if no match can begin with it.
        automaton: the arrays of an Nfa; see `Automaton`.
        kinds, masks, programs: the conditions by variable; see `Conditions`.
        partial_ends: by key, where its partial matches end.
        partials: three numbers for each: its state (FINAL if it is complete), first row, and place in the heap.
        partial_counts: the rows of each variable for each.
        window_ms: 0 for no limit. now: the time when the rows have been processed.

    Returns: the status and the key of an error; the number of found matches, and two numbers for each: its first row,
    and the row at which it was found, which is -1 for the time `now`; their rows of each variable; the number
    of new partial matches of all keys, and they as in the arguments.
    """
    variables, firsts, actions, targets = automaton[0], automaton[1], automaton[2], automaton[3]
    num_keys, num_rows, width = len(ends), len(times), max(len(actions), 1)
    state, start, counts = np.zeros(16, np.int64), np.zeros(16, np.int64), np.zeros(16 * num_variables, np.int64)
    new_state, new_start = np.zeros(16, np.int64), np.zeros(16, np.int64)
    new_counts = np.zeros(16 * num_variables, np.int64)
    heap, new_heap = np.zeros(16, np.int64), np.zeros(16, np.int64)
    done_start, done_counts = np.zeros(16, np.int64), np.zeros(16 * num_variables, np.int64)
    done, ready = np.zeros(16, np.int64), np.zeros(16, np.int64)
    matches, match_counts = np.zeros(64, np.int64), np.zeros(32 * num_variables, np.int64)
    out_ends = np.zeros(num_keys, np.int64)
    out, out_counts = np.zeros(96, np.int64), np.zeros(32 * num_variables, np.int64)
    pending, found = np.zeros(4 * width + 8, np.int64), np.zeros(4 * width + 8, np.int64)
    found_from = np.zeros(4 * width + 8, np.int64)
    memo = np.zeros(num_variables, np.int64)
    stack = (np.zeros(64, np.int64), np.zeros(64, np.float64), np.zeros(64, np.int64))
    num_matches, num_out, status = 0, 0, DONE
    for key in range(num_keys):
        # -- the partial matches of the key, as a heap
        begin = partial_ends[key - 1] if key else 0
        loaded = partial_ends[key] - begin
        state, start = grown(state, loaded + 1), grown(start, loaded + 1)
        counts, heap = grown(counts, (loaded + 1) * num_variables), grown(heap, loaded + 1)
        done_start, done = grown(done_start, loaded + 1), grown(done, loaded + 1)
        done_counts = grown(done_counts, (loaded + 1) * num_variables)
        size, num_done, num_kept = 0, 0, 0
        for p in range(begin, begin + loaded):
            if partials[3 * p] == _FINAL:
                done_start[num_done] = partials[3 * p + 1]
                for v in range(num_variables):
                    done_counts[num_done * num_variables + v] = partial_counts[p * num_variables + v]
                done[partials[3 * p + 2]] = num_done
                num_done += 1
            else:
                size += 1
                heap[partials[3 * p + 2]] = -size
                state[size], start[size] = partials[3 * p], partials[3 * p + 1]
                for v in range(num_variables):
                    counts[size * num_variables + v] = partial_counts[p * num_variables + v]
        # Element 0 is the search for new matches. It has the place that no other has.
        state[0], start[0] = start_state, _NOT_BEGUN
        for v in range(num_variables):
            counts[v] = 0
        size += 1
        for k in range(size):
            heap[k] = -heap[k] if heap[k] < 0 else 0
        num_kept = num_done
        # -- its new rows
        for row in range(first_new[key], ends[key]):
            if size == 1 and num_done == 0 and not can_begin[row]:
                continue
            room = size * width + 1
            new_state, new_start, new_heap = grown(new_state, room), grown(new_start, room), grown(new_heap, room)
            new_counts = grown(new_counts, room * num_variables)
            done_start, ready = grown(done_start, num_kept + room), grown(ready, room)
            done_counts, done = grown(done_counts, (num_kept + room) * num_variables), grown(done, num_kept + room)
            matches = grown(matches, 2 * (num_matches + 2 * (num_kept + room)))
            match_counts = grown(match_counts, (num_matches + 2 * (num_kept + room)) * num_variables)
            if window_ms > 0:
                size = expire(heap, size, start, times, times[row], window_ms, new_heap)
                status, size, num_done, num_matches = emit(
                    row,
                    heap,
                    size,
                    start,
                    done,
                    num_done,
                    done_start,
                    done_counts,
                    num_variables,
                    skip_mode,
                    skip_variable,
                    matches,
                    match_counts,
                    num_matches,
                )
                if status != DONE:
                    break
            new_size, num_new, num_ready = 0, 0, 0
            for k in range(size):
                element = heap[k]
                is_search = start[element] == _NOT_BEGUN
                first = row if is_search else start[element]
                at = element * num_variables
                for v in range(num_variables):
                    memo[v] = -1
                # -- the transitions that apply, in the order in which a stack of states finds them
                pending[0], num_pending, num_found = state[element], 1, 0
                while num_pending > 0:
                    num_pending -= 1
                    current = pending[num_pending]
                    for t in range(firsts[current], firsts[current + 1]):
                        if applies(t, automaton, row, first, counts, at, memo, kinds, masks, num_rows, programs, stack):
                            if actions[t] == _PROCEED:
                                pending[num_pending] = targets[t]
                                num_pending += 1
                            else:
                                found[num_found], found_from[num_found] = targets[t], current
                                num_found += 1
                added = num_new
                for f in range(num_found):
                    target, taken = found[f], variables[found_from[f]]
                    if target != _FINAL:
                        new_state[num_new], new_start[num_new] = target, first
                        for v in range(num_variables):
                            new_counts[num_new * num_variables + v] = counts[at + v]
                        new_counts[num_new * num_variables + taken] += 1
                        num_new += 1
                    # -- whether the match may end here
                    is_complete = target == _FINAL
                    pending[0], num_pending = target, 1
                    while num_pending > 0 and not is_complete:
                        num_pending -= 1
                        current = pending[num_pending]
                        for t in range(firsts[current], firsts[current + 1]):
                            if actions[t] == _PROCEED and applies(
                                t, automaton, row, first, counts, at, memo, kinds, masks, num_rows, programs, stack
                            ):
                                if targets[t] == _FINAL:
                                    is_complete = True
                                    break
                                pending[num_pending] = targets[t]
                                num_pending += 1
                    if is_complete:
                        done_start[num_kept] = first
                        for v in range(num_variables):
                            done_counts[num_kept * num_variables + v] = counts[at + v]
                        done_counts[num_kept * num_variables + taken] += 1
                        sift_up(ready, num_ready, num_kept, done_start)
                        num_ready += 1
                        num_kept += 1
                for p in range(added, num_new):
                    sift_up(new_heap, new_size, p, new_start)
                    new_size += 1
                if is_search:
                    new_state[num_new], new_start[num_new] = start_state, _NOT_BEGUN
                    for v in range(num_variables):
                        new_counts[num_new * num_variables + v] = 0
                    sift_up(new_heap, new_size, num_new, new_start)
                    new_size += 1
                    num_new += 1
            state, new_state = new_state, state
            start, new_start = new_start, start
            counts, new_counts = new_counts, counts
            heap, new_heap = new_heap, heap
            size = new_size
            for k in range(num_ready):
                sift_up(done, num_done, ready[k], done_start)
                num_done += 1
            status, size, num_done, num_matches = emit(
                row,
                heap,
                size,
                start,
                done,
                num_done,
                done_start,
                done_counts,
                num_variables,
                skip_mode,
                skip_variable,
                matches,
                match_counts,
                num_matches,
            )
            if status != DONE:
                break
            if num_done == 0:
                num_kept = 0
        # -- the end of the rows
        if status == DONE and window_ms > 0:
            new_heap = grown(new_heap, size)
            matches = grown(matches, 2 * (num_matches + num_done))
            match_counts = grown(match_counts, (num_matches + num_done) * num_variables)
            size = expire(heap, size, start, times, now, window_ms, new_heap)
            status, size, num_done, num_matches = emit(
                -1,
                heap,
                size,
                start,
                done,
                num_done,
                done_start,
                done_counts,
                num_variables,
                skip_mode,
                skip_variable,
                matches,
                match_counts,
                num_matches,
            )
        if status != DONE:
            return status, key, num_matches, matches, match_counts, num_out, out, out_counts, out_ends
        out = grown(out, 3 * (num_out + size + num_done))
        out_counts = grown(out_counts, (num_out + size + num_done) * num_variables)
        for k in range(size):
            element = heap[k]
            if start[element] != _NOT_BEGUN:
                out[3 * num_out], out[3 * num_out + 1], out[3 * num_out + 2] = state[element], start[element], k
                for v in range(num_variables):
                    out_counts[num_out * num_variables + v] = counts[element * num_variables + v]
                num_out += 1
        for k in range(num_done):
            out[3 * num_out], out[3 * num_out + 1], out[3 * num_out + 2] = _FINAL, done_start[done[k]], k
            for v in range(num_variables):
                out_counts[num_out * num_variables + v] = done_counts[done[k] * num_variables + v]
            num_out += 1
        out_ends[key] = num_out
    return DONE, -1, num_matches, matches, match_counts, num_out, out, out_counts, out_ends


def _ask(variable: Any, row: Any, start: Any, counts: Any, at: Any) -> Any:
    """Stands for conditions that need Python, where there are none."""
    return 0


sift_up, sift_down, prune, holds, applies = _sift_up, _sift_down, _prune, _holds, _applies
emit, expire, grown, ask, advance = _emit, _expire, _grown, _ask, _advance

_PARTS = ("sift_up", "sift_down", "prune", "grown", "ask", "holds", "applies", "emit", "expire", "advance")


@cache
def match_kernel() -> Any:
    """Returns `advance`, compiled if numba is installed."""
    if find_spec("numba") is None:
        return python_kernel(_ask)
    import numba

    compiled = numba.njit(cache=True, nogil=True)
    parts = globals()
    parts["evaluate"] = condition_programs.compiled_evaluate(compiled)
    for name in _PARTS:
        parts[name] = compiled(parts[f"_{name}"])
    return advance


def python_kernel(answer: Any) -> Any:
    """Returns `advance` in Python, which asks `answer` for conditions of the kind EXTERNAL."""
    parts: dict[str, Any] = {**globals(), "evaluate": condition_programs.python_evaluate()}
    for name in _PARTS:
        parts[name] = FunctionType(parts[f"_{name}"].__code__, parts, name)
    parts["ask"] = answer
    return parts["advance"]
