import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { time } from "../format/format";
import { PAGES, type Page } from "../pages";
import { config, isHistory, silentSince } from "../state/connection";
import { useQuery } from "../state/polling";
import { theme, toggleTheme } from "../state/theme";
import { dismiss, toasts } from "../state/toasts";

/** The frame of all pages: navigation, the state of the connection, messages. */
export function Layout({ children }: { children: ComponentChildren }): VNode {
  const [location] = useLocation();
  return (
    <div class="frame">
      <button type="button" class="skip-link" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <Navigation location={location} />
      <div class="content">
        <NoAnswer />
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Toasts />
    </div>
  );
}

function Navigation({ location }: { location: string }): VNode {
  const overview = useQuery("/overview").data;
  return (
    <header class="side">
      <Link href="/" class="brand" aria-label="flinkpy: overview">
        <Logo />
        <span>flinkpy</span>
      </Link>
      <nav aria-label="Main">
        {PAGES.filter((page) => page.nav && isOffered(page)).map((page) => (
          <Link key={page.path} href={page.path} aria-current={isWithin(location, page.path) ? "page" : undefined}>
            {page.nav}
          </Link>
        ))}
      </nav>
      <div class="side-foot">
        {isHistory.value && <strong>History server</strong>}
        <span class="muted">{overview ? `Version ${overview["flink-version"]}` : ""}</span>
        <button
          type="button"
          class="icon-button"
          onClick={toggleTheme}
          aria-label={theme.value === "dark" ? "Use light colours" : "Use dark colours"}
          title={theme.value === "dark" ? "Light colours" : "Dark colours"}
        >
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
      </div>
    </header>
  );
}

function isOffered(page: Page): boolean {
  if (page.needsCluster && isHistory.value) return false;
  return !page.feature || config.value?.features[page.feature] === true;
}

function isWithin(location: string, path: string): boolean {
  return path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`);
}

function Logo(): VNode {
  return (
    <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="var(--accent)" />
      <path
        d="M6 11c5 0 5 5 10 5s5-5 10-5M6 21c5 0 5-5 10-5s5 5 10 5"
        fill="none"
        stroke="#fff"
        stroke-width="2.6"
        stroke-linecap="round"
      />
      <circle cx="16" cy="16" r="3.2" fill="#fbbf24" />
    </svg>
  );
}

/** Says since when the cluster has not answered. What is shown below it is from before. */
function NoAnswer(): VNode {
  const since = silentSince.value;
  return (
    <div role="status" aria-live="polite">
      {since !== null && (
        <div class="banner tone-bad">
          The cluster has not answered since {time(since)} (<Elapsed sinceMs={since} />
          ). What you see is from then; this page goes on by itself when it is back.
        </div>
      )}
    </div>
  );
}

function Elapsed({ sinceMs }: { sinceMs: number }): VNode {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return <span aria-live="off">{Math.max(0, Math.round((now - sinceMs) / 1000))} s</span>;
}

function Toasts(): VNode {
  return (
    <div class="toasts" role="log" aria-label="Messages">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast tone-${toast.kind === "error" ? "bad" : "good"}`}>
          <span>{toast.text}</span>
          <button type="button" class="icon-button" aria-label="Close this message" onClick={() => dismiss(toast.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
