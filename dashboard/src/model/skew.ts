/** How unevenly subtasks are loaded. Pure. */

export type Spread = { min: number; max: number; mean: number; skew: number; worst: number };

/**
 * Returns the spread of the values over the subtasks; null if none is known.
 *
 * `skew` is Flink's: the mean absolute deviation in percent of the mean, at most 100. `worst` is the index of the largest.
 */
export function spreadOf(values: readonly (number | null)[]): Spread | null {
  const known = values.filter((value): value is number => value !== null);
  if (!known.length) return null;
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const deviation = known.reduce((sum, value) => sum + Math.abs(value - mean), 0) / known.length;
  const max = Math.max(...known);
  const skew = mean === 0 ? 0 : Math.min(100, (deviation / Math.abs(mean)) * 100);
  return { min: Math.min(...known), max, mean, skew, worst: values.indexOf(max) };
}
