/** Turns the times at which a task entered its states into segments of a time line. Pure. */

export type Segment = { state: string; fromMs: number; toMs: number };

const TERMINAL = new Set(["FINISHED", "CANCELED", "FAILED"]);

/** Flink has 0 for a state that was not entered. A segment ends where the next one begins, the last one now. */
export function segmentsOf(timestamps: Record<string, number>, nowMs: number): Segment[] {
  const entered = Object.entries(timestamps)
    .filter(([state, at]) => at > 0 && state !== "RECONCILING")
    .sort(([, a], [, b]) => a - b);
  return entered
    .map(([state, fromMs], index) => ({ state, fromMs, toMs: entered[index + 1]?.[1] ?? nowMs }))
    .filter(({ state }) => !TERMINAL.has(state));
}

export type End = { state: string; at: number };

/** The state in which a task ended; empty while it lives. */
export function endsOf(timestamps: Record<string, number>): End[] {
  const found = Object.entries(timestamps).find(([state, at]) => TERMINAL.has(state) && at > 0);
  return found ? [{ state: found[0], at: found[1] }] : [];
}

/** A line of a subtask: its former attempts, which have ended, and its current one. */
export function withFormer(
  former: Record<string, number>[],
  current: Record<string, number>,
  nowMs: number,
): { segments: Segment[]; ends: End[] } {
  const attempts = [...former, current];
  return {
    segments: attempts.flatMap((timestamps) => segmentsOf(timestamps, nowMs)),
    ends: attempts.flatMap(endsOf),
  };
}

/** At most this many marks, at round times since the beginning: 1, 2 or 5 times a power of ten, or minutes and hours. */
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 216e5,
  864e5, 1728e5, 6048e5,
];

export function marksOf(spanMs: number, most = 8): number[] {
  const step = STEPS_MS.find((one) => spanMs / one <= most) ?? spanMs;
  const marks: number[] = [];
  for (let at = 0; at <= spanMs; at += step) marks.push(at);
  return marks;
}
