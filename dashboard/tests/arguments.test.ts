import { expect, test } from "vitest";
import { readOptions, splitArguments } from "../src/model/arguments";

test.each([
  ["", []],
  ["  --input  /data ", ["--input", "/data"]],
  ["--text 'two words' --empty ''", ["--text", "two words", "--empty", ""]],
  ['--json "{\\"a\\": 1}"', ["--json", '{"a": 1}']],
  ["a\\ b c", ["a b", "c"]],
  ["--x=a'b c'd", ["--x=ab cd"]],
])("arguments %j", (line, expected) => {
  expect(splitArguments(line)).toEqual(expected);
});

test("a quote that is not closed is an error", () => {
  expect(() => splitArguments("--text 'two")).toThrow("not closed");
});

test("options are read a line each", () => {
  expect(readOptions("a.b: 1\n\n# comment\nc=d=e\n")).toEqual({ "a.b": "1", c: "d=e" });
  expect(() => readOptions("nothing")).toThrow("nothing");
});
