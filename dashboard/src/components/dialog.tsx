import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** A modal dialog. It is shown while it is in the document; Escape and the close button call `onClose`. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={props.title} onClose={props.onClose}>
      <header>
        <h2>{props.title}</h2>
        <button
          type="button"
          class="icon-button"
          aria-label="Close this dialog"
          onClick={() => dialog.current?.close()}
        >
          ×
        </button>
      </header>
      {props.children}
    </dialog>
  );
}
