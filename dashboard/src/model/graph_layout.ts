/** Places the vertices of a job and the edges between them. Pure. */
import * as dagre from "@dagrejs/dagre";
import type { Job } from "./job_model";

export const NODE_WIDTH = 262;
export const NODE_HEIGHT = 136;
const LABEL_WIDTH = 92;
const LABEL_HEIGHT = 36;

export type Point = { x: number; y: number };
export type PlacedEdge = { key: string; from: string; to: string; strategy: string; path: string; label: Point };
export type GraphLayout = {
  width: number;
  height: number;
  /** The upper left corner of each vertex. */
  nodes: Map<string, Point>;
  edges: PlacedEdge[];
};

/** Returns the layout of a plan, from left to right. */
export function laidOut(plan: Job["plan"]): GraphLayout {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 34, ranksep: 50, edgesep: 18, marginx: 14, marginy: 14 });
  for (const node of plan.nodes) graph.setNode(node.id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const node of plan.nodes) {
    for (const input of node.inputs ?? []) {
      const label = { width: LABEL_WIDTH, height: LABEL_HEIGHT, labelpos: "c", strategy: input.ship_strategy };
      graph.setEdge(input.id, node.id, label, String(input.num));
    }
  }
  dagre.layout(graph);
  const nodes = new Map<string, Point>();
  for (const id of graph.nodes()) {
    const { x, y } = graph.node(id) as Point;
    nodes.set(id, { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 });
  }
  const edges = graph.edges().map((edge) => {
    const placed = graph.edge(edge) as { points: Point[]; strategy: string } & Point;
    const key = `${edge.v} ${edge.w} ${edge.name}`;
    return { key, from: edge.v, to: edge.w, strategy: placed.strategy, path: curve(placed.points), label: placed };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { width, height, nodes, edges };
}

/** Returns an SVG path through the points, without corners. */
function curve(points: Point[]): string {
  const [first, ...rest] = points;
  const last = rest.pop();
  if (!first || !last) return "";
  const text = (point: Point) => `${Math.round(point.x)} ${Math.round(point.y)}`;
  let path = `M ${text(first)}`;
  for (const [index, point] of rest.entries()) {
    const next = rest[index + 1] ?? last;
    const end = index === rest.length - 1 ? last : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    path += ` Q ${text(point)} ${text(end)}`;
  }
  return rest.length ? path : `${path} L ${text(last)}`;
}
