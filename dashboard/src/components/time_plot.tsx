import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../state/theme";

const HEIGHT = 190;
/** The time axis covers at least this, so that its labels differ. */
const MIN_SECONDS = 60;
/** Colours that can be told apart, also by people who see red and green alike. Each for light and dark. */
const COLOURS = {
  light: ["#4f46e5", "#d9480f", "#0b7285", "#a61e4d", "#5c940d"],
  dark: ["#8b85ff", "#ff9f5a", "#4fd1e0", "#ff8fb1", "#b7e063"],
};

/**
 * Lines over time. uPlot draws them on a canvas, so polls cost little.
 *
 * @param data the times in seconds, then the values of each line; null: not known
 */
export function TimePlot(props: {
  label: string;
  lines: string[];
  data: [number[], ...(number | null)[][]];
  text: (value: number | null) => string;
}): VNode {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { data, text } = props;
  const latest = useRef(data);
  latest.current = data;
  const colours = theme.value;
  const names = props.lines.join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: `text` is always the same function for a label
  useEffect(() => {
    const parent = place.current;
    if (!parent) return;
    const style = getComputedStyle(document.documentElement);
    const [stroke, grid] = [style.getPropertyValue("--muted"), style.getPropertyValue("--line")];
    const axis = { stroke, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const made = new uPlot(
      {
        width: parent.clientWidth,
        height: HEIGHT,
        series: [
          {
            value: (_, seconds) => (seconds ? new Date(seconds * 1000).toLocaleTimeString([], { hour12: false }) : ""),
          },
          ...names.split("\n").map((label, index) => ({
            label,
            stroke: COLOURS[colours][index % COLOURS[colours].length],
            width: 2,
            points: { show: false },
            value: (_: uPlot, value: number | null) => text(value),
          })),
        ],
        axes: [
          { ...axis, size: 30, values: "{HH}:{mm}:{ss}" },
          { ...axis, size: 76, values: (_, values) => values.map((value) => text(value)) },
        ],
        scales: {
          x: { range: (_, min, max) => [Math.min(min ?? 0, (max ?? 0) - MIN_SECONDS), max ?? 0] },
          y: { range: (_, min, max) => [Math.min(0, min ?? 0), (max || 1) * 1.08] },
        },
      },
      latest.current,
      parent,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height: HEIGHT }));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, colours]);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div class="plot" role="img" aria-label={props.label} ref={place} />;
}
