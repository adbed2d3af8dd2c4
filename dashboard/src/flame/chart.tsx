import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type Box,
  type Direction,
  type FlameNode,
  layOut,
  leadingToMatches,
  matches,
  neighbour,
  shortName,
} from "./tree";

const ROW_PX = 22;
/** Narrower boxes cannot be seen or hit. */
const MIN_BOX_PX = 2;
/** Boxes above this width have room for some letters. */
const MIN_LABEL_PX = 26;

const ARROWS: Record<string, Direction> = {
  ArrowUp: "up",
  ArrowDown: "down",
  ArrowLeft: "left",
  ArrowRight: "right",
};

/** The tones of frames of one kind differ a bit, by their names, so that neighbours can be told apart. */
function shade(name: string): number {
  let hash = 0;
  for (let index = 0; index < name.length; index++) hash = (hash * 31 + name.charCodeAt(index)) | 0;
  return Math.abs(hash) % 5;
}

function percentOf(part: number, whole: number): string {
  if (!whole) return "0 %";
  const share = (100 * part) / whole;
  return `${share >= 10 || share === 0 ? Math.round(share) : share.toFixed(1)} %`;
}

const KINDS = { user: "user function", library: "library", runtime: "flinkpy" };

function describe(node: FlameNode, root: FlameNode): string {
  const own = node.self ? `, ${percentOf(node.self, root.value)} in itself` : "";
  const what = node.isFolded ? "frames of flinkpy" : node.name;
  return `${what}: ${percentOf(node.value, root.value)} of the samples${own}`;
}

/** Draws the tree, the root above. Click or Enter zooms in, Escape zooms out, arrow keys go from frame to frame. */
export function FlameChart(props: {
  root: FlameNode;
  zoomed: FlameNode;
  wanted: string;
  onZoom: (node: FlameNode) => void;
}): VNode {
  const { root, zoomed, wanted, onZoom } = props;
  const area = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1_000);
  const [pointed, setPointed] = useState<FlameNode | null>(null);
  const [focusedPath, setFocusedPath] = useState("");

  useEffect(() => {
    const element = area.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const boxes = useMemo(() => layOut(zoomed, MIN_BOX_PX / Math.max(1, width)), [zoomed, width]);
  const leading = useMemo(() => leadingToMatches(root, wanted), [root, wanted]);
  const focused = boxes.find((box) => box.node.path === focusedPath)?.node ?? zoomed;
  const depth = boxes.reduce((deepest, box) => Math.max(deepest, box.node.depth), 0) + 1;
  const shown = pointed ?? focused;

  const focus = (node: FlameNode) => {
    setFocusedPath(node.path);
    area.current?.querySelector<HTMLElement>(`[data-path="${CSS.escape(node.path)}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const direction = ARROWS[event.key];
    if (direction) focus(neighbour(boxes, focused, direction));
    else if (event.key === "Enter" || event.key === " ") onZoom(focused);
    else if (event.key === "Escape") onZoom(root);
    else return;
    event.preventDefault();
  };

  return (
    <div class="flame">
      <p class="flame-details" aria-live="polite">
        {shown === root ? (
          <span class="muted">
            Width is the share of samples. Click a frame, or use the arrow keys and Enter, to zoom.
          </span>
        ) : (
          <>
            <span class={`flame-key kind-${shown.kind}`} aria-hidden="true" />
            <span class="mono">{shown.isFolded ? "frames of flinkpy" : shown.name}</span>
            <span class="muted">
              {percentOf(shown.value, root.value)} of all samples
              {shown.self > 0 && `, ${percentOf(shown.self, root.value)} in itself`}
              {` · ${KINDS[shown.kind]}`}
            </span>
          </>
        )}
      </p>
      <div
        class="flame-area"
        ref={area}
        role="tree"
        aria-label="Flame graph"
        style={{ height: `${depth * ROW_PX}px` }}
        onKeyDown={onKeyDown}
        onMouseLeave={() => setPointed(null)}
      >
        {boxes.map((box) => (
          <FlameBox
            key={box.node.path}
            box={box}
            root={root}
            widthPx={box.width * width}
            isAncestor={box.node.depth < zoomed.depth}
            isMatch={matches(box.node, wanted)}
            isDimmed={wanted !== "" && !leading.has(box.node)}
            isFocusable={box.node === focused}
            onPoint={setPointed}
            onZoom={(node) => {
              setFocusedPath(node.path);
              onZoom(node);
            }}
          />
        ))}
      </div>
    </div>
  );
}

function FlameBox(props: {
  box: Box;
  root: FlameNode;
  widthPx: number;
  isAncestor: boolean;
  isMatch: boolean;
  isDimmed: boolean;
  isFocusable: boolean;
  onPoint: (node: FlameNode) => void;
  onZoom: (node: FlameNode) => void;
}): VNode {
  const { node, x, width } = props.box;
  const marks = [
    "flame-box",
    `kind-${node.kind}`,
    `shade-${shade(node.name)}`,
    props.isAncestor && "is-ancestor",
    props.isMatch && "is-match",
    props.isDimmed && "is-dimmed",
  ];
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: keys are handled by the tree
    <div
      class={marks.filter(Boolean).join(" ")}
      role="treeitem"
      aria-level={node.depth + 1}
      aria-label={describe(node, props.root)}
      tabIndex={props.isFocusable ? 0 : -1}
      data-path={node.path}
      style={{ left: `${x * 100}%`, width: `${width * 100}%`, top: `${node.depth * ROW_PX}px` }}
      onClick={() => props.onZoom(node)}
      onMouseEnter={() => props.onPoint(node)}
      onFocus={() => props.onPoint(node)}
    >
      {props.widthPx >= MIN_LABEL_PX && <span>{props.widthPx > 420 ? node.name : shortName(node)}</span>}
    </div>
  );
}
