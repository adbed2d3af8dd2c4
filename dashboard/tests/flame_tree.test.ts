import { expect, test } from "vitest";
import {
  type FlameNode,
  type Frame,
  find,
  hotFunctions,
  layOut,
  leadingToMatches,
  matchingSamples,
  neighbour,
  shortName,
  simplify,
} from "../src/flame/tree";

function frame(name: string, kind: string, own: number, ...children: Frame[]): Frame {
  return { name, kind, value: own + children.reduce((sum, child) => sum + child.value, 0), children };
}

const run = (own: number, ...children: Frame[]) => frame("threading.Thread.run:982", "library", own, ...children);
const task = (own: number, ...children: Frame[]) => frame("flinkpy.task.Task.run:3", "runtime", own, ...children);
const loop = (own: number, ...children: Frame[]) => frame("parse (fused loop)", "runtime", own, ...children);
const parse = (line: number, own: number, ...children: Frame[]) =>
  frame(`job.Parse.map:${line}`, "user", own, ...children);
const loads = (own: number, ...children: Frame[]) => frame("json.loads:9", "library", own, ...children);
const collect = (own: number) => frame("flinkpy.out.Output.collect:1", "runtime", own);

const ROOT: Frame = frame(
  "root",
  "runtime",
  0,
  run(
    0,
    task(
      2,
      loop(1, parse(4, 3, loads(5)), parse(5, 2, loads(1), collect(1))),
      frame(
        "flinkpy.streaming.mailbox.mailbox_processor.MailboxProcessor._suspend:174",
        "runtime",
        0,
        frame("flinkpy.streaming.mailbox.task_mailbox.TaskMailbox.wait:92", "runtime", 4),
      ),
    ),
  ),
);

const FOLDED = simplify(ROOT, { showsRuntime: false, showsLines: false });
const WHOLE = simplify(ROOT, { showsRuntime: true, showsLines: true });

function paths(node: FlameNode): Record<string, [number, number]> {
  const found: Record<string, [number, number]> = {};
  const visit = (one: FlameNode) => {
    found[one.path.replaceAll("\n", " / ")] = [one.value, one.self];
    one.children.forEach(visit);
  };
  visit(node);
  return found;
}

test("frames of the runtime become one, generated loops and what the runtime waits for stay", () => {
  const at = " / flinkpy / parse (fused loop)";
  expect(paths(FOLDED)).toEqual({
    "": [19, 0],
    " / flinkpy": [19, 2],
    [at]: [13, 1],
    [`${at} / job.Parse.map`]: [12, 5],
    [`${at} / job.Parse.map / json.loads`]: [6, 6],
    [`${at} / job.Parse.map / flinkpy`]: [1, 1],
    " / flinkpy / waits for records or output memory": [4, 4],
  });
});

test("all frames and lines are shown on demand, and no sample is lost", () => {
  const own = (node: FlameNode): number => node.self + node.children.reduce((sum, child) => sum + own(child), 0);
  expect(own(WHOLE)).toBe(ROOT.value);
  expect(own(FOLDED)).toBe(ROOT.value);
  const names = Object.keys(paths(WHOLE)).join("\n");
  expect(names).toContain("job.Parse.map:4 / json.loads:9");
  expect(names).toContain("job.Parse.map:5 / flinkpy.out.Output.collect:1");
});

test("a library under the runtime is folded, and one under a user function is not", () => {
  const nested = simplify(frame("root", "runtime", 0, run(0, loads(3))), { showsRuntime: false, showsLines: false });
  expect(Object.keys(paths(nested))).toEqual(["", " / flinkpy"]);
});

test("a path is found again in new samples, or its nearest ancestor", () => {
  const path = "\nflinkpy\nparse (fused loop)\njob.Parse.map";
  expect(find(FOLDED, path).value).toBe(12);
  expect(find(FOLDED, `${path}\ngone\nmore`).path).toBe(path);
  expect(find(FOLDED, "").parent).toBeNull();
});

test("boxes lie inside those of their parents, and narrow ones are left out", () => {
  const boxes = layOut(FOLDED, 0);
  const byPath = new Map(boxes.map((box) => [box.node.path, box]));
  expect(boxes).toHaveLength(7);
  for (const box of boxes) {
    const above = box.node.parent && byPath.get(box.node.parent.path);
    if (above) {
      expect(box.x).toBeGreaterThanOrEqual(above.x);
      expect(box.x + box.width).toBeLessThanOrEqual(above.x + above.width + 1e-9);
    }
  }
  expect(layOut(FOLDED, 0.1).map((box) => box.node.name)).not.toContain("waits for nothing");
  expect(layOut(FOLDED, 0.5).map((box) => box.node.value)).toEqual([19, 19, 13, 12]);
  const zoomed = find(FOLDED, "\nflinkpy\nparse (fused loop)");
  expect(
    layOut(zoomed, 0)
      .slice(0, 3)
      .map((box) => box.width),
  ).toEqual([1, 1, 1]);
});

test("a search counts each sample once", () => {
  expect(matchingSamples(FOLDED, "parse")).toBe(13);
  expect(matchingSamples(FOLDED, "json")).toBe(6);
  expect(matchingSamples(FOLDED, "")).toBe(0);
  expect([...leadingToMatches(FOLDED, "job.parse")].map((node) => node.name).sort()).toEqual([
    "all samples",
    "flinkpy",
    "job.Parse.map",
    "parse (fused loop)",
  ]);
});

test("functions are counted once per stack, even if they call themselves", () => {
  const recursive = frame("root", "runtime", 0, parse(1, 1, parse(1, 2, parse(1, 3))));
  expect(hotFunctions(simplify(recursive, { showsRuntime: false, showsLines: false }))).toEqual([
    { name: "job.Parse.map", kind: "user", self: 6, total: 6 },
  ]);
  expect(hotFunctions(FOLDED)[0]).toMatchObject({ name: "json.loads", self: 6, total: 6 });
});

test("arrow keys lead to the boxes beside, above and below", () => {
  const boxes = layOut(FOLDED, 0);
  const first = FOLDED.children[0] as FlameNode;
  expect(neighbour(boxes, FOLDED, "down")).toBe(first);
  expect(neighbour(boxes, first, "up")).toBe(FOLDED);
  expect(neighbour(boxes, FOLDED, "up")).toBe(FOLDED);
  const [left, right] = first.children as [FlameNode, FlameNode];
  expect(neighbour(boxes, left, "right")).toBe(right);
  expect(neighbour(boxes, right, "left")).toBe(left);
  expect(neighbour(boxes, right, "right")).toBe(right);
  expect(neighbour(boxes, right, "down")).toBe(right);
});

test("short names are without modules", () => {
  const short = (name: string) => shortName({ ...FOLDED, name, parent: FOLDED, isFolded: false });
  expect(short("job.Parse.map:12")).toBe("Parse.map:12");
  expect(short("flinkpy.streaming.tasks.stream_task.StreamTask._run")).toBe("StreamTask._run");
  expect(short("json.loads")).toBe("loads");
  expect(short("job.main.<locals>.<lambda>:3")).toBe("main.<locals>.<lambda>:3");
  expect(short("parse (fused loop)")).toBe("parse (fused loop)");
});
