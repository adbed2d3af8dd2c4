import { expect, test } from "vitest";
import { delaySentence, partsOf } from "../src/model/checkpoint_delay";

const subtask = { index: 1, ackTimestamp: 1_400, startDelay: 20, alignment: 280, sync: 5, async: 45 };
const ms = (value: number) => `${value} ms`;

test("the parts of a subtask add up to the time until its acknowledgement", () => {
  const parts = partsOf(subtask, 1_000);
  expect(parts).toEqual([
    ["startDelay", 20],
    ["alignment", 280],
    ["sync", 5],
    ["async", 45],
    ["other", 50],
  ]);
});

test("the slowest part of the last subtask is named", () => {
  expect(delaySentence("join", 4, subtask, 1_000, ms)).toBe(
    "join (2/4) was the last to acknowledge, after 400 ms. Most of that, 280 ms, was alignment: barriers of its inputs came at different times.",
  );
});

test("clocks that differ give no negative parts", () => {
  expect(partsOf({ ...subtask, startDelay: -3 }, 2_000).every(([, value]) => value >= 0)).toBe(true);
});
