import type { VNode } from "preact";

/** A field whose text narrows down what is shown beside it. */
export function SearchField(props: { label: string; value: string; onSearch: (wanted: string) => void }): VNode {
  return (
    <input
      type="search"
      placeholder="Search"
      aria-label={props.label}
      value={props.value}
      onInput={(event) => props.onSearch(event.currentTarget.value)}
    />
  );
}
