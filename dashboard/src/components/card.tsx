import type { ComponentChildren, VNode } from "preact";

/** A titled part of a page. */
export function Card(props: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}): VNode {
  return (
    <section class={`card ${props.class ?? ""}`} aria-label={props.title}>
      <header>
        <h2>{props.title}</h2>
        {props.aside}
      </header>
      {props.children}
    </section>
  );
}

/** A number with its name. */
export function Stat(props: {
  label: string;
  value: ComponentChildren;
  detail?: ComponentChildren;
  tone?: string;
}): VNode {
  return (
    <div class={`stat ${props.tone ? `tone-${props.tone}` : ""}`}>
      <dt>{props.label}</dt>
      <dd>{props.value}</dd>
      {props.detail && <dd class="detail">{props.detail}</dd>}
    </div>
  );
}

/** Names and values, one a line. */
export function Facts({ facts }: { facts: [string, ComponentChildren][] }): VNode {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
