import type { VNode } from "preact";

/** A bar whose parts add up. The class `part-<name>` has the colour of a part. */
export function StackedBar(props: {
  total: number;
  format: (ms: number) => string;
  parts: { name: string; title: string; ms: number }[];
}): VNode {
  const text = props.parts
    .filter((part) => part.ms > 0)
    .map((part) => `${part.title} ${props.format(part.ms)}`)
    .join(", ");
  return (
    <div class="stacked-bar" role="img" aria-label={text} title={text}>
      {props.parts.map((part) => (
        <i key={part.name} class={`part-${part.name}`} style={{ width: `${(part.ms / props.total) * 100}%` }} />
      ))}
    </div>
  );
}
