import { expect, test } from "vitest";
import { readStack } from "../src/model/stack_trace";

const TEXT = `JobExecutionError: the job failed
Caused by: FunctionError: map (1/2), operator map: ValueError: no 7, in map(7)
Traceback (most recent call last):
  File "job.py", line 7, in map
    raise ValueError(
        f"no {value}")
ValueError: no 7
Caused by: ValueError: no 7
`;

test("the user's traceback is found among the causes, and its last line is the root cause", () => {
  const { rootCause, userTraceback } = readStack(TEXT);
  expect(rootCause).toBe("ValueError: no 7");
  expect(userTraceback.startsWith("Traceback (most recent call last):")).toBe(true);
  expect(userTraceback.endsWith("ValueError: no 7")).toBe(true);
});

test("without a traceback the innermost cause is the root cause", () => {
  expect(readStack("TaskManagerLostError: lost\nCaused by: RpcUnavailableError: no connection\n")).toEqual({
    rootCause: "RpcUnavailableError: no connection",
    userTraceback: "",
  });
});
