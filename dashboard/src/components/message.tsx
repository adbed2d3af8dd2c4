import type { ComponentChildren, VNode } from "preact";
import type { ApiError } from "../api/client";

/** A box in place of content: nothing to show, or an error. */
export function Message({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  return (
    <div class="message">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
    </div>
  );
}

/** In place of what only a running cluster has, on a page of the history server. */
export function NotArchived({ what }: { what: string }): VNode {
  return (
    <Message title="Not in the history">
      {what} cannot be shown. The history server knows the archives of ended jobs only.
    </Message>
  );
}

/** What to show while there is no data: that it is on its way, or why there is none. */
export function NoData({ error, what }: { error: ApiError | undefined; what: string }): VNode {
  if (!error || error.status === 0) return <div class="loading" role="status" aria-label={`Loading ${what}`} />;
  return (
    <Message title={error.status === 404 ? `${what} is not known` : `${what} cannot be shown`}>{error.message}</Message>
  );
}
