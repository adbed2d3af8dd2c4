import { expect, test } from "vitest";
import { endsOf, marksOf, segmentsOf, withFormer } from "../src/model/timeline";

const TIMES = { CREATED: 100, SCHEDULED: 110, DEPLOYING: 150, RUNNING: 200, FINISHED: 0, RECONCILING: 0 };

test("each state lasts until the next one, the last one until now", () => {
  expect(segmentsOf(TIMES, 1_000)).toEqual([
    { state: "CREATED", fromMs: 100, toMs: 110 },
    { state: "SCHEDULED", fromMs: 110, toMs: 150 },
    { state: "DEPLOYING", fromMs: 150, toMs: 200 },
    { state: "RUNNING", fromMs: 200, toMs: 1_000 },
  ]);
  expect(endsOf(TIMES)).toEqual([]);
});

test("the end is a point and not a segment", () => {
  const ended = { ...TIMES, FAILED: 700 };
  expect(segmentsOf(ended, 1_000).at(-1)).toEqual({ state: "RUNNING", fromMs: 200, toMs: 700 });
  expect(endsOf(ended)).toEqual([{ state: "FAILED", at: 700 }]);
});

test("former attempts stand before the current one, each with its end", () => {
  const former = { CREATED: 10, RUNNING: 20, FAILED: 60 };
  const { segments, ends } = withFormer([former], { CREATED: 80, RUNNING: 90 }, 100);
  expect(segments.map(({ fromMs, toMs }) => [fromMs, toMs])).toEqual([
    [10, 20],
    [20, 60],
    [80, 90],
    [90, 100],
  ]);
  expect(ends).toEqual([{ state: "FAILED", at: 60 }]);
});

test("marks are at round times and few", () => {
  expect(marksOf(45_000)).toEqual([0, 10_000, 20_000, 30_000, 40_000]);
  expect(marksOf(3 * 86_400_000).length).toBeLessThan(10);
});
