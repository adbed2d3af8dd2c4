import type { ComponentChildren, VNode } from "preact";
import { useEffect } from "preact/hooks";
import { Link } from "wouter-preact";

/** Where the page is, its title, and its actions. It sets the title of the document, too. */
export function PageHead(props: {
  title: string;
  /** The pages above this one, from the outermost. */
  path?: { href: string; title: string }[];
  /** Beside the title, e.g. the state of a job. */
  beside?: ComponentChildren;
  /** Buttons on the right. */
  actions?: ComponentChildren;
}): VNode {
  useEffect(() => {
    document.title = `${props.title} – flinkpy`;
  }, [props.title]);
  return (
    <div class="page-head">
      {props.path && (
        <nav class="breadcrumbs" aria-label="Breadcrumbs">
          <ol>
            {props.path.map((above) => (
              <li key={above.href}>
                <Link href={above.href}>{above.title}</Link>
              </li>
            ))}
            <li aria-current="page">{props.title}</li>
          </ol>
        </nav>
      )}
      <div class="title-line">
        <h1>{props.title}</h1>
        {props.beside}
        <div class="actions">{props.actions}</div>
      </div>
    </div>
  );
}
