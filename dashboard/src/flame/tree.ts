/** The tree of a flame graph: how it is simplified, searched, counted and laid out. Pure. */
import type { Schema } from "../api/client";

export type Frame = Schema["FlameGraphNode"];
export type Kind = "user" | "library" | "runtime";

/** A frame that is shown. It may stand for several frames of the answer. */
export type FlameNode = {
  /** The names of all nodes from the root, which stay the same when new samples arrive. */
  path: string;
  name: string;
  kind: Kind;
  /** True for frames of the runtime that are shown as one. */
  isFolded: boolean;
  /** The samples with this frame on the stack. */
  value: number;
  /** The samples in which this frame was the innermost one that is shown. */
  self: number;
  depth: number;
  parent: FlameNode | null;
  /** In the order of their values. */
  children: FlameNode[];
};

export type View = { showsRuntime: boolean; showsLines: boolean };

const ROOT_NAME = "all samples";
const RUNTIME = "flinkpy";
const LINE = /:\d+$/;
/** Generated loops have the names of operators, by which users find their way. */
const LOOP = / \(fused loop\)$/;

/** Innermost frames of a task that waits, in words. By the end of the name, without the line. */
const WAITS: [string, string][] = [["MailboxProcessor._suspend", "waits for records or output memory"]];

type Draft = { value: number; kind: Kind; isFolded: boolean; children: Map<string, Draft> };

function draft(kind: Kind, isFolded = false): Draft {
  return { value: 0, kind, isFolded, children: new Map() };
}

function childOf(parent: Draft, name: string, kind: Kind, isFolded = false): Draft {
  let child = parent.children.get(name);
  if (!child) {
    child = draft(kind, isFolded);
    parent.children.set(name, child);
  }
  return child;
}

/** Frames of flinkpy, and of libraries that it calls. */
function isFoldable(frame: Frame, parent: Draft): boolean {
  if (LOOP.test(frame.name)) return false;
  return frame.kind === "runtime" || (frame.kind === "library" && (parent.isFolded || parent.kind === "runtime"));
}

function wordsFor(name: string): string | undefined {
  return WAITS.find(([end]) => name.endsWith(end))?.[1];
}

function add(parent: Draft, frame: Frame, view: View): void {
  const name = view.showsLines ? frame.name : frame.name.replace(LINE, "");
  let node: Draft;
  if (!view.showsRuntime && isFoldable(frame, parent)) {
    node = parent.isFolded ? parent : childOf(parent, RUNTIME, "runtime", true);
    const words = wordsFor(frame.name.replace(LINE, ""));
    if (words) {
      // What is below waits, too.
      node.value += parent.isFolded ? 0 : frame.value;
      childOf(node, words, "runtime").value += frame.value;
      return;
    }
    if (!parent.isFolded) node.value += frame.value;
  } else {
    node = childOf(parent, name, frame.kind as Kind);
    node.value += frame.value;
  }
  for (const child of frame.children) add(node, child, view);
}

function finished(name: string, made: Draft, parent: FlameNode | null): FlameNode {
  const node: FlameNode = {
    path: parent ? `${parent.path}\n${name}` : "",
    name,
    kind: made.kind,
    isFolded: made.isFolded,
    value: made.value,
    self: made.value,
    depth: parent ? parent.depth + 1 : 0,
    parent,
    children: [],
  };
  const children = [...made.children].map(([childName, child]) => finished(childName, child, node));
  children.sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
  node.children = children;
  node.self -= children.reduce((sum, child) => sum + child.value, 0);
  return node;
}

/** Returns the tree that is shown for the root of an answer. */
export function simplify(root: Frame, view: View): FlameNode {
  const top = draft("runtime");
  top.value = root.value;
  for (const child of root.children) add(top, child, view);
  return finished(ROOT_NAME, top, null);
}

/** Returns the node with this path, or its nearest ancestor that exists. */
export function find(root: FlameNode, path: string): FlameNode {
  let node = root;
  for (const name of path.split("\n").slice(1)) {
    const next = node.children.find((child) => child.name === name);
    if (!next) return node;
    node = next;
  }
  return node;
}

export type Box = { node: FlameNode; x: number; width: number };

/** More boxes than this cannot be told apart, and would make the page slow. */
const MAX_BOXES = 5_000;

/**
 * Returns the boxes of a tree below `zoomed`, whose ancestors have the full width. `x` and `width` are from 0 to 1.
 *
 * @param minWidth boxes that are narrower are left out, with all below them
 */
export function layOut(zoomed: FlameNode, minWidth: number): Box[] {
  const boxes: Box[] = [];
  for (let node = zoomed.parent; node; node = node.parent) boxes.unshift({ node, x: 0, width: 1 });
  const rows: Box[] = [{ node: zoomed, x: 0, width: 1 }];
  for (let index = 0; index < rows.length && boxes.length < MAX_BOXES; index++) {
    const box = rows[index] as Box;
    boxes.push(box);
    let { x } = box;
    for (const child of box.node.children) {
      const width = zoomed.value ? child.value / zoomed.value : 0;
      if (width >= minWidth) rows.push({ node: child, x, width });
      x += width;
    }
  }
  return boxes;
}

/** True if a frame matches what the user is looking for, which has no capitals. */
export function matches(node: FlameNode, wanted: string): boolean {
  return wanted !== "" && node.name.toLowerCase().includes(wanted);
}

/** Returns the nodes below `root` that match, and those above them. */
export function leadingToMatches(root: FlameNode, wanted: string): Set<FlameNode> {
  const found = new Set<FlameNode>();
  const visit = (node: FlameNode): boolean => {
    let leads = matches(node, wanted);
    for (const child of node.children) leads = visit(child) || leads;
    if (leads) found.add(node);
    return leads;
  };
  visit(root);
  return found;
}

/** Returns the number of samples below `root` that have a matching frame. */
export function matchingSamples(root: FlameNode, wanted: string): number {
  if (matches(root, wanted)) return root.value;
  return root.children.reduce((sum, child) => sum + matchingSamples(child, wanted), 0);
}

export type Hot = { name: string; kind: Kind; self: number; total: number };

/** Returns the functions below `root`, those with the most samples of their own first. Recursion counts once. */
export function hotFunctions(root: FlameNode): Hot[] {
  const found = new Map<string, Hot>();
  const open = new Set<string>();
  const visit = (node: FlameNode) => {
    let hot = found.get(node.name);
    if (!hot) {
      hot = { name: node.name, kind: node.kind, self: 0, total: 0 };
      found.set(node.name, hot);
    }
    hot.self += node.self;
    const isOutermost = !open.has(node.name);
    if (isOutermost) {
      hot.total += node.value;
      open.add(node.name);
    }
    for (const child of node.children) visit(child);
    if (isOutermost) open.delete(node.name);
  };
  for (const child of root.children) visit(child);
  return [...found.values()].sort((a, b) => b.self - a.self || b.total - a.total);
}

export type Direction = "up" | "down" | "left" | "right";

/** Returns the box to which an arrow key leads. Rows go downwards from the root. */
export function neighbour(boxes: Box[], current: FlameNode, direction: Direction): FlameNode {
  const shown = new Set(boxes.map((box) => box.node));
  if (direction === "up") return current.parent ?? current;
  if (direction === "down") return current.children.find((child) => shown.has(child)) ?? current;
  const row = boxes.filter((box) => box.node.depth === current.depth);
  const index = row.findIndex((box) => box.node === current);
  return row[index + (direction === "left" ? -1 : 1)]?.node ?? current;
}

/** The function without its module, for narrow boxes: `job.Parse.map:12` becomes `Parse.map:12`. */
export function shortName(node: FlameNode): string {
  if (node.isFolded || node.parent === null || LOOP.test(node.name) || !node.name.includes(".")) return node.name;
  const parts = node.name.split(".");
  // Modules are in lower case, classes are not.
  const start = parts.findIndex((part, index) => index > 0 && /^_*[A-Z]/.test(part));
  if (start > 0) return parts.slice(start).join(".");
  const inner = parts.indexOf("<locals>");
  return parts.slice(inner > 1 ? inner - 1 : -1).join(".");
}
