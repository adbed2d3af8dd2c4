import { render } from "preact";
import { App } from "./app";
import { startPolling } from "./state/polling";
import "./styles/page.css";
import "./styles/details.css";

startPolling();
render(<App />, document.getElementById("app") as HTMLElement);
