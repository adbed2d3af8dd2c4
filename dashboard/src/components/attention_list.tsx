import type { VNode } from "preact";
import { Link } from "wouter-preact";
import type { Attention } from "../model/attention";

/** What needs attention, the worst first. */
export function AttentionList({ items }: { items: Attention[] }): VNode {
  const ordered = [...items.filter((item) => item.tone === "bad"), ...items.filter((item) => item.tone !== "bad")];
  return (
    <ul class="attention">
      {ordered.map((item) => (
        <li key={item.key} class={`tone-${item.tone}`}>
          <Link href={item.href}>
            <span class="visually-hidden">{item.tone === "bad" ? "Problem: " : "Warning: "}</span>
            {item.title}
          </Link>
          <span>{item.detail}</span>
        </li>
      ))}
    </ul>
  );
}
