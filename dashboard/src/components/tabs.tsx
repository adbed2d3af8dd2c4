import type { VNode } from "preact";
import { Link } from "wouter-preact";

/** Links to the parts of a page. */
export function Tabs(props: {
  label: string;
  current: string;
  tabs: { href: string; id: string; title: string }[];
}): VNode {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map((tab) => (
        <Link key={tab.id} href={tab.href} aria-current={tab.id === props.current ? "page" : undefined}>
          {tab.title}
        </Link>
      ))}
    </nav>
  );
}
