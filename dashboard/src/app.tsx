import type { VNode } from "preact";
import { Route, Router, Switch } from "wouter-preact";
import { useHashLocation } from "wouter-preact/use-hash-location";
import { Layout } from "./components/layout";
import { Lazy } from "./components/lazy";
import { Message, NotArchived } from "./components/message";
import { PAGES } from "./pages";
import { LoginNeeded } from "./pages/login_needed";
import { config, isHistory, loggedIn } from "./state/connection";

export function App(): VNode {
  if (!loggedIn.value) return <LoginNeeded />;
  if (config.value === null) return <div class="loading" role="status" aria-label="Loading the page" />;
  return (
    <Router hook={useHashLocation}>
      <Layout>
        <Switch>
          {PAGES.map((page) => (
            <Route key={page.path} path={page.path}>
              {(params: Record<string, string>) =>
                page.needsCluster && isHistory.value ? (
                  <NotArchived what="The processes of a cluster" />
                ) : (
                  <Lazy load={page.load} {...params} />
                )
              }
            </Route>
          ))}
          <Route>
            <Message title="There is no such page">
              <a href="#/">Go to the overview</a>
            </Message>
          </Route>
        </Switch>
      </Layout>
    </Router>
  );
}
