import type { VNode } from "preact";

/** What somebody without a session sees. The page cannot log in by itself: the link comes from the command line. */
export function LoginNeeded(): VNode {
  return (
    <main class="login">
      <h1>You are not logged in</h1>
      <p>Run this where the cluster was started, or where its token is:</p>
      <pre>flinkpy dashboard</pre>
      <p>
        It prints and opens a link that logs this browser in for twelve hours. With <code>--read-only</code> the browser
        can look, but not cancel or run anything.
      </p>
    </main>
  );
}
