import type { VNode } from "preact";
import { useState } from "preact/hooks";

/** Copies a text, and says so for a moment. */
export function CopyButton({ text, what }: { text: string; what: string }): VNode {
  const [isCopied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2_000);
  }
  return (
    <button type="button" class="button" aria-label={`Copy ${what}`} onClick={() => void copy()}>
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}
