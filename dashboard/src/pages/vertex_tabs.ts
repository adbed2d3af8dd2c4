/** The tabs of the page of a vertex. */
import type { VNode } from "preact";
import type { Answer } from "../api/client";

export type VertexTabProps = {
  jobid: string;
  vertexid: string;
  job: Answer<"/jobs/{jobid}">;
  vertex: Answer<"/jobs/{jobid}">["vertices"][number];
};

export type VertexTab = {
  /** The last part of the address; empty: the first tab. */
  id: string;
  title: string;
  /** It shows what only a running cluster has. */
  needsCluster?: boolean;
  load: () => Promise<{ default: (props: VertexTabProps) => VNode }>;
};

export const VERTEX_TABS: VertexTab[] = [
  { id: "", title: "Subtasks", load: () => import("./vertex_subtasks") },
  { id: "metrics", title: "Metrics", needsCluster: true, load: () => import("./vertex_metrics") },
  { id: "accumulators", title: "Accumulators", load: () => import("./vertex_accumulators") },
  { id: "flame", title: "Flame graph", needsCluster: true, load: () => import("./vertex_flame_graph") },
];
