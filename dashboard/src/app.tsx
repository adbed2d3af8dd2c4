import type { VNode } from "preact";
import { Route, Router, Switch } from "wouter-preact";
import { useHashLocation } from "wouter-preact/use-hash-location";
import { Layout } from "./components/layout";
import { Lazy } from "./components/lazy";
import { Message } from "./components/message";
import { PAGES } from "./pages";
import { LoginNeeded } from "./pages/login_needed";
import { loggedIn } from "./state/connection";

export function App(): VNode {
  if (!loggedIn.value) return <LoginNeeded />;
  return (
    <Router hook={useHashLocation}>
      <Layout>
        <Switch>
          {PAGES.map((page) => (
            <Route key={page.path} path={page.path}>
              {(params: Record<string, string>) => <Lazy load={page.load} {...params} />}
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
