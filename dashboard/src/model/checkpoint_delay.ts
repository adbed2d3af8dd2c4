/** Says which subtask held a checkpoint up, and which part of its work. Pure. */

export type SubtaskTimes = {
  index: number;
  ackTimestamp: number;
  /** All in ms. */
  startDelay: number;
  alignment: number;
  sync: number;
  async: number;
};

export type Part = "startDelay" | "alignment" | "sync" | "async" | "other";

export const PART_TITLES: Record<Part, string> = {
  startDelay: "start delay",
  alignment: "alignment",
  sync: "sync",
  async: "async",
  other: "other",
};

const PART_WORDS: Record<Part, string> = {
  startDelay: "start delay: the barrier took this long to reach the task, so records were queued before it",
  alignment: "alignment: barriers of its inputs came at different times",
  sync: "the synchronous part: the task stood still while its state was frozen",
  async: "the asynchronous part: its state was written",
  other: "none of the measured parts, e.g. waiting for the task thread or for the answer to arrive",
};

/** Returns the parts of the time from the trigger to the acknowledgement of a subtask, in their order. */
export function partsOf(subtask: SubtaskTimes, triggerTimestamp: number): [Part, number][] {
  const total = Math.max(0, subtask.ackTimestamp - triggerTimestamp);
  const measured: [Part, number][] = [
    ["startDelay", subtask.startDelay],
    ["alignment", subtask.alignment],
    ["sync", subtask.sync],
    ["async", subtask.async],
  ];
  const rest = total - measured.reduce((sum, [, ms]) => sum + Math.max(0, ms), 0);
  return [...measured.map(([part, ms]): [Part, number] => [part, Math.max(0, ms)]), ["other", Math.max(0, rest)]];
}

export function slowestPart(parts: [Part, number][]): [Part, number] {
  return parts.reduce((longest, one) => (one[1] > longest[1] ? one : longest));
}

/** The sentence about the subtask that acknowledged last. */
export function delaySentence(
  vertexName: string,
  parallelism: number,
  subtask: SubtaskTimes,
  triggerTimestamp: number,
  format: (ms: number) => string,
): string {
  const total = Math.max(0, subtask.ackTimestamp - triggerTimestamp);
  const [part, ms] = slowestPart(partsOf(subtask, triggerTimestamp));
  const who = `${vertexName} (${subtask.index + 1}/${parallelism})`;
  return `${who} was the last to acknowledge, after ${format(total)}. Most of that, ${format(ms)}, was ${PART_WORDS[part]}.`;
}
