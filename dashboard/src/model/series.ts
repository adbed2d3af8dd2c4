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

/** Returns a sample of single values. Values that are no numbers are left out. */
export function sampleOf(metrics: { id: string; value?: string }[]): Sample {
  const sample: Sample = {};
  for (const { id, value } of metrics) {
    const number = value === undefined || value === "" ? Number.NaN : Number(value);
    if (Number.isFinite(number)) sample[id] = { min: number, max: number, avg: number, sum: number };
  }
  return sample;
}

/** Returns the values of a metric that has one value at a time. */
export function valuesOf(history: History, metric: string): (number | null)[] {
  return history.samples.map((sample) => sample[metric]?.avg ?? null);
}
