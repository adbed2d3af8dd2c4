import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type GetPath, getTail, urlOf } from "../api/client";
import { bytes, plural, time } from "../format/format";
import { linesOf, matching } from "../model/log_lines";
import { noteError, usePolled, useQuery } from "../state/polling";
import { Card } from "./card";
import { SearchField } from "./search_field";

/** How much of the end of a file is shown. The whole file can be downloaded. */
const TAIL_BYTES = 256 * 1024;

type Source = {
  /** What distinguishes it from the others. */
  id: string;
  title: string;
  path: GetPath;
  parameters: Record<string, string>;
};
type Content = { text: string; isWhole: boolean; totalBytes: number; error?: string };

/** The log files of a process and of its host: their ends, searched and followed, and downloads. */
export function LogView(props: {
  owner: "/jobmanager" | "/taskmanagers/{taskmanagerid}";
  taskmanagerid?: string;
}): VNode {
  const { owner } = props;
  const path: Record<string, string> = props.taskmanagerid ? { taskmanagerid: props.taskmanagerid } : {};
  const { data } = useQuery(`${owner}/logs`, { path });
  const sources: Source[] = [
    { id: "log", title: "Log of this process", path: `${owner}/log`, parameters: path },
    { id: "stdout", title: "Standard output of this process", path: `${owner}/stdout` as GetPath, parameters: path },
    ...(data?.logs ?? []).map((file) => ({
      id: `file ${file.name}`,
      title: `${file.name} (${bytes(file.size)}, ${time(file.mtime)})`,
      path: `${owner}/logs/{filename}` as GetPath,
      parameters: { ...path, filename: file.name },
    })),
  ];
  const [chosen, choose] = useState("log");
  const source = sources.find((one) => one.id === chosen) ?? (sources[0] as Source);
  return (
    <Card
      title="Logs"
      aside={
        <div class="tools">
          <select aria-label="Log file" value={source.id} onChange={(event) => choose(event.currentTarget.value)}>
            {sources.map((one) => (
              <option key={one.id} value={one.id}>
                {one.title}
              </option>
            ))}
          </select>
          <a class="button" href={urlOf(source.path, { path: source.parameters })} download={`${source.id}.log`}>
            Download
          </a>
        </div>
      }
    >
      <Tail key={source.id} source={source} />
    </Card>
  );
}

function Tail({ source }: { source: Source }): VNode {
  const [content, setContent] = useState<Content>();
  const [isFollowing, setFollowing] = useState(true);
  const [wanted, setWanted] = useState("");
  const box = useRef<HTMLDivElement>(null);
  async function load(): Promise<void> {
    try {
      setContent(await getTail(source.path, { path: source.parameters }, TAIL_BYTES));
    } catch (error) {
      const { status, message } = noteError(error);
      if (status !== 0) setContent({ text: "", isWhole: true, totalBytes: 0, error: message });
    }
  }
  const isMissing = content?.error !== undefined;
  usePolled(isFollowing && !isMissing ? `log ${source.id}` : null, load);
  const lines = useMemo(() => (content ? linesOf(content.text, content.isWhole) : []), [content]);
  const shown = useMemo(() => matching(lines, wanted), [lines, wanted]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it scrolls whenever other lines are shown
  useEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, isFollowing]);
  if (!content) return <div class="loading" role="status" aria-label="Loading the log" />;
  if (isMissing) return <p class="muted">{content.error}</p>;
  return (
    <>
      <div class="tools">
        <SearchField label="Search the log" value={wanted} onSearch={setWanted} />
        <label class="check">
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />
          Follow
        </label>
        <span class="muted">
          {wanted ? `${shown.length} of ${plural(lines.length, "line")}` : plural(lines.length, "line")}
          {!content.isWhole && `, the last ${bytes(TAIL_BYTES)} of ${bytes(content.totalBytes)}`}
        </span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it can be scrolled with the keyboard */}
      <div class="log" ref={box} tabIndex={0} role="log" aria-label="Log" aria-live="off">
        {shown.map((line) => (
          <div key={line.number} class={line.tone ? `tone-${line.tone}` : undefined}>
            {line.text || " "}
          </div>
        ))}
        {shown.length === 0 && <p class="muted">{wanted ? "No line matches." : "The file is empty."}</p>}
      </div>
    </>
  );
}
