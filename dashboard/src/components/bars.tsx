import type { VNode } from "preact";

const HEIGHT = 64;
/** More bars than this cannot be told apart: neighbours share one, which shows the largest. */
const MAX_BARS = 300;

/** A bar per subtask, so that one that differs is seen at once. */
export function Bars(props: {
  label: string;
  values: (number | null)[];
  text: (value: number | null) => string;
}): VNode {
  const { values } = props;
  const share = Math.max(1, Math.ceil(values.length / MAX_BARS));
  const bars = Array.from({ length: Math.ceil(values.length / share) }, (_, index) => {
    const group = values.slice(index * share, (index + 1) * share);
    return { index: index * share, value: Math.max(...group.map((value) => value ?? 0)) };
  });
  const top = Math.max(1, ...bars.map((bar) => bar.value));
  const mean = values.reduce<number>((sum, value) => sum + (value ?? 0), 0) / Math.max(1, values.length);
  const gap = bars.length > 80 ? 0 : 0.2;
  return (
    <svg
      class="bars"
      viewBox={`0 0 ${bars.length} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${props.label} of each subtask: at most ${props.text(top)}, on average ${props.text(mean)}`}
    >
      {bars.map((bar) => {
        const height = Math.max(1, (bar.value / top) * HEIGHT);
        return (
          <rect key={bar.index} x={bar.index + gap / 2} y={HEIGHT - height} width={1 - gap} height={height}>
            <title>{`subtask ${bar.index}: ${props.text(bar.value)}`}</title>
          </rect>
        );
      })}
      <line x1="0" x2={bars.length} y1={HEIGHT - (mean / top) * HEIGHT} y2={HEIGHT - (mean / top) * HEIGHT} />
    </svg>
  );
}
