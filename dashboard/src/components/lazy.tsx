import type { ComponentType, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Message } from "./message";

type Props = Record<string, unknown>;
/** Loads a module whose default export is a component. */
export type LazyModule = () => Promise<{ default: (props: never) => VNode }>;

/** Shows a component whose code is loaded when it is needed. It passes all other properties on. */
export function Lazy({ load, ...rest }: { load: LazyModule; [name: string]: unknown }): VNode {
  const [loaded, setLoaded] = useState<{ Component?: ComponentType<Props>; error?: unknown }>({});
  useEffect(() => {
    let isCurrent = true;
    load().then(
      (module) => isCurrent && setLoaded({ Component: module.default as unknown as ComponentType<Props> }),
      (error) => isCurrent && setLoaded({ error }),
    );
    return () => {
      isCurrent = false;
    };
  }, [load]);
  if (loaded.error) {
    return (
      <Message title="This page could not be loaded">The server may have been updated. Load the page again.</Message>
    );
  }
  return loaded.Component ? <loaded.Component {...rest} /> : <div class="loading" role="status" aria-label="Loading" />;
}
