/** The history of metrics since their page was opened. Pure. */

/** An hour of polls every three seconds. */
const MAX_POINTS = 1_200;

export type Sample = Record<string, { min: number; max: number; avg: number; sum: number }>;
export type History = { times: number[]; samples: Sample[] };

export const NO_HISTORY: History = { times: [], samples: [] };

export function extended(history: History, timeMs: number, sample: Sample): History {
  const from = Math.max(0, history.times.length + 1 - MAX_POINTS);
  return {
    times: [...history.times.slice(from), timeMs / 1000],
    samples: [...history.samples.slice(from), sample],
  };
}

/** Returns the times and the values of some aggregates of a metric, as plots take them. */
export function linesOf(
  history: History,
  metric: string,
  aggregates: readonly ("min" | "max" | "avg" | "sum")[],
): [number[], ...(number | null)[][]] {
  return [
    history.times,
    ...aggregates.map((aggregate) => history.samples.map((sample) => sample[metric]?.[aggregate] ?? null)),
  ];
}
