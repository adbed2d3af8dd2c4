import type { VNode } from "preact";
import { Card, Facts } from "../components/card";
import { LogView } from "../components/log_view";
import { Message, NoData } from "../components/message";
import { OptionTable } from "../components/option_table";
import { PageHead } from "../components/page_head";
import { ProcessMetrics } from "../components/process_metrics";
import { Tabs } from "../components/tabs";
import { ThreadDump } from "../components/thread_dump";
import { useQuery } from "../state/polling";

const TABS = [
  { id: "", title: "Configuration" },
  { id: "metrics", title: "Metrics" },
  { id: "logs", title: "Logs" },
  { id: "threads", title: "Threads" },
];

/** The Dispatcher that answers, and the logs of the JobMasters, which lie in the same directory. */
export default function JobManager({ tab = "" }: { tab?: string }): VNode {
  return (
    <>
      <PageHead title="Dispatcher" />
      <Tabs
        label="Parts of the Dispatcher"
        current={tab}
        tabs={TABS.map((one) => ({ ...one, href: one.id ? `/jobmanager/${one.id}` : "/jobmanager" }))}
      />
      <Part tab={tab} />
    </>
  );
}

function Part({ tab }: { tab: string }): VNode {
  switch (tab) {
    case "":
      return <Configuration />;
    case "metrics":
      return <ProcessMetrics />;
    case "logs":
      return <LogView owner="/jobmanager" />;
    case "threads":
      return <ThreadDump />;
    default:
      return <Message title="There is no such tab" />;
  }
}

function Configuration(): VNode {
  const { data, error } = useQuery("/jobmanager/options", {}, 60_000);
  const { data: environment } = useQuery("/jobmanager/environment", {}, 60_000);
  if (!data) return <NoData error={error} what="The configuration of the cluster" />;
  return (
    <>
      <Card title="Options of the cluster">
        <OptionTable options={data.options} hasSource={false} />
      </Card>
      {environment && (
        <Card title="Interpreter">
          <Facts
            facts={[
              ["Python", environment.jvm.version],
              ["Architecture", environment.jvm.arch],
              ["Options", environment.jvm.options.join(" ") || "none"],
            ]}
          />
          <details>
            <summary>Search path</summary>
            <pre class="code">{environment.classpath.join("\n")}</pre>
          </details>
        </Card>
      )}
    </>
  );
}
