import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, rate, UNKNOWN, watermark } from "../format/format";
import { laidOut, NODE_HEIGHT, NODE_WIDTH } from "../model/graph_layout";
import { BUSY_PERCENT, HIGH_PERCENT, type Job, operatorsIn, rateBetween, type VertexLoad } from "../model/job_model";
import { LoadBar, LoadLegend, LoadText } from "./load_bar";

const MIN_SCALE = 0.15;
const MAX_SCALE = 1.6;
/** Small graphs are not blown up. */
const MAX_FITTED_SCALE = 1.1;
const MIN_HEIGHT_PX = 220;
const MAX_HEIGHT_PX = 560;
const ZOOM_STEP = 1.25;

type View = { scale: number; x: number; y: number };

/** The graph of a job. Its nodes and edges show the load; a node is a button that selects its vertex. */
export function JobGraphView(props: {
  plan: Job["plan"];
  loads: VertexLoad[];
  selected: string | null;
  onSelect: (id: string) => void;
}): VNode {
  const { plan, loads } = props;
  const shape = plan.nodes.map((node) => [node.id, ...(node.inputs ?? []).map((input) => input.id)].join()).join(";");
  // biome-ignore lint/correctness/useExhaustiveDependencies: polls make new objects of the same graph
  const layout = useMemo(() => laidOut(plan), [shape]);
  const byId = useMemo(() => new Map(loads.map((load) => [load.id, load])), [loads]);
  const viewport = useRef<HTMLDivElement>(null);
  const [view, setView] = useState<View>({ scale: 1, x: 0, y: 0 });
  const [height, setHeight] = useState(MIN_HEIGHT_PX);
  const drag = useRef<{ x: number; y: number } | null>(null);

  const fit = useMemo(
    () => () => {
      const width = viewport.current?.clientWidth ?? 0;
      if (!width) return;
      const scale = Math.max(
        MIN_SCALE,
        Math.min(MAX_FITTED_SCALE, width / layout.width, MAX_HEIGHT_PX / layout.height),
      );
      const fitted = Math.max(MIN_HEIGHT_PX, Math.min(MAX_HEIGHT_PX, layout.height * scale));
      setHeight(fitted);
      setView({ scale, x: (width - layout.width * scale) / 2, y: (fitted - layout.height * scale) / 2 });
    },
    [layout],
  );
  useLayoutEffect(fit, [fit]);
  useEffect(() => {
    const observer = new ResizeObserver(fit);
    if (viewport.current) observer.observe(viewport.current);
    return () => observer.disconnect();
  }, [fit]);

  function zoom(factor: number, at?: { x: number; y: number }): void {
    setView((before) => {
      const scale = Math.max(MIN_SCALE, Math.min(MAX_SCALE, before.scale * factor));
      const center = at ?? { x: (viewport.current?.clientWidth ?? 0) / 2, y: height / 2 };
      const ratio = scale / before.scale;
      return { scale, x: center.x - (center.x - before.x) * ratio, y: center.y - (center.y - before.y) * ratio };
    });
  }

  return (
    <div class="graph">
      <div class="graph-tools">
        <LoadLegend />
        <button type="button" class="button" aria-label="Zoom out" onClick={() => zoom(1 / ZOOM_STEP)}>
          −
        </button>
        <button type="button" class="button" aria-label="Zoom in" onClick={() => zoom(ZOOM_STEP)}>
          +
        </button>
        <button type="button" class="button" onClick={fit}>
          Fit
        </button>
      </div>
      <div
        class="graph-viewport"
        style={{ height: `${height}px` }}
        ref={viewport}
        onPointerDown={(event) => {
          if (event.button === 0) drag.current = { x: event.clientX, y: event.clientY };
        }}
        onPointerMove={(event) => {
          const from = drag.current;
          if (!from || event.buttons === 0) return;
          drag.current = { x: event.clientX, y: event.clientY };
          setView((before) => ({
            ...before,
            x: before.x + event.clientX - from.x,
            y: before.y + event.clientY - from.y,
          }));
        }}
        onPointerUp={() => {
          drag.current = null;
        }}
        onWheel={(event) => {
          // Without the key the wheel scrolls the page.
          if (!event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          const box = event.currentTarget.getBoundingClientRect();
          zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP, {
            x: event.clientX - box.left,
            y: event.clientY - box.top,
          });
        }}
      >
        <div
          class="graph-canvas"
          style={{
            width: `${layout.width}px`,
            height: `${layout.height}px`,
            transform: `translate(${view.x}px, ${view.y}px) scale(${view.scale})`,
          }}
        >
          <svg width={layout.width} height={layout.height} aria-hidden="true">
            <defs>
              <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
                <path d="M0 0 L8 4 L0 8 z" class="arrow" />
              </marker>
            </defs>
            {layout.edges.map((edge) => {
              const from = byId.get(edge.from);
              const isHeld = (from?.backPressuredMax ?? 0) > HIGH_PERCENT;
              const flows = (from?.recordsOutRate ?? 0) > 0;
              return (
                <path
                  key={edge.key}
                  d={edge.path}
                  class={`edge ${isHeld ? "held" : ""} ${flows ? "flows" : ""}`}
                  marker-end="url(#arrow)"
                />
              );
            })}
          </svg>
          {layout.edges.map((edge) => {
            const [from, to] = [byId.get(edge.from), byId.get(edge.to)];
            const perSecond = from && to ? rateBetween(from, to, loads) : null;
            return (
              <div key={edge.key} class="edge-label" style={{ left: `${edge.label.x}px`, top: `${edge.label.y}px` }}>
                <b>{edge.strategy}</b>
                <span>{perSecond === null ? "" : rate(perSecond)}</span>
              </div>
            );
          })}
          {loads.map((load) => {
            const place = layout.nodes.get(load.id);
            return (
              place && (
                <Node
                  key={load.id}
                  load={load}
                  left={place.x}
                  top={place.y}
                  isSelected={props.selected === load.id}
                  onSelect={props.onSelect}
                />
              )
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** How a node is framed: what is worst about its vertex. */
function lookOf(load: VertexLoad): string {
  if (load.status === "FAILED" || load.tasks.FAILED) return "failed";
  if ((load.backPressuredMax ?? 0) > HIGH_PERCENT) return "pressured";
  if ((load.busyMax ?? 0) > BUSY_PERCENT) return "busy";
  return load.status.toLowerCase();
}

function Node(props: {
  load: VertexLoad;
  left: number;
  top: number;
  isSelected: boolean;
  onSelect: (id: string) => void;
}): VNode {
  const { load } = props;
  const operators = operatorsIn(load.name);
  const running = load.tasks.RUNNING ?? 0;
  return (
    <button
      type="button"
      class={`node look-${lookOf(load)}`}
      aria-pressed={props.isSelected}
      title={load.name}
      style={{ left: `${props.left}px`, top: `${props.top}px`, width: `${NODE_WIDTH}px`, height: `${NODE_HEIGHT}px` }}
      onClick={() => props.onSelect(load.id)}
    >
      <span class="node-name">{operators.join(" → ")}</span>
      <span class="node-state">
        <i class="dot" />
        {load.status.toLowerCase()} ·{" "}
        {running === load.parallelism || running === 0 ? load.parallelism : `${running} of ${load.parallelism}`}{" "}
        {load.parallelism === 1 ? "subtask" : "subtasks"}
      </span>
      <span class="node-load">
        <LoadBar busy={load.busy} backPressured={load.backPressured} idle={load.idle} />
        <span>
          <LoadText name="busy" mean={load.busy} worst={load.busyMax} /> ·{" "}
          <LoadText name="back-pressured" mean={load.backPressured} worst={load.backPressuredMax} />
        </span>
      </span>
      <span class="node-rates">
        <span title={`${count(load.recordsIn)} records in`}>
          {load.inputs.length ? `in ${load.recordsInRate === null ? UNKNOWN : rate(load.recordsInRate)}` : "source"}
        </span>
        <span title={`${count(load.recordsOut)} records out`}>
          out {load.recordsOutRate === null ? UNKNOWN : rate(load.recordsOutRate)}
        </span>
      </span>
      <span class="node-watermark">{load.watermark === null ? "" : `watermark ${watermark(load.watermark)}`}</span>
    </button>
  );
}
