import { expect, test } from "vitest";
import { linesOf, matching } from "../src/model/log_lines";

const LOG = `cut
12:00 INFO started
12:01 ERROR it failed
Traceback (most recent call last):
  File "job.py", line 1
ValueError: no
12:02 INFO goes on
12:03 WARNING low
`;

test("a traceback has the tone of its line, and the first line is left out where it is cut", () => {
  expect(linesOf(LOG, false).map((line) => line.tone)).toEqual(["", "bad", "bad", "bad", "bad", "", "warn"]);
  expect(linesOf(LOG, true)[0]?.text).toBe("cut");
});

test("lines are found in any case", () => {
  expect(matching(linesOf(LOG, true), "valueERROR").map((line) => line.text)).toEqual(["ValueError: no"]);
});
