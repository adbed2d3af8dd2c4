import type { VNode } from "preact";
import { Link } from "wouter-preact";
import type { JobTabProps } from "./job_tabs";

export default function JobGraph({ job }: JobTabProps): VNode {
  return (
    <ul>
      {job.vertices.map((vertex) => (
        <li key={vertex.id}>
          <Link href={`/jobs/${job.jid}/vertices/${vertex.id}`}>{vertex.name}</Link>
        </li>
      ))}
    </ul>
  );
}
