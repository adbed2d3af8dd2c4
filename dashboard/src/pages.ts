/** All pages. A page is a module in `pages/` whose default export is a component; its code is loaded when it is opened. */
import type { LazyModule } from "./components/lazy";

export type Page = {
  /** The address after the `#`. Its parameters are properties of the component. */
  path: string;
  load: LazyModule;
  /** The name in the navigation; without it the page is not there. */
  nav?: string;
  /** It is in the navigation only if `GET /config` offers this. */
  feature?: "web-submit";
  /** It shows processes of a running cluster. A history server has none. */
  needsCluster?: boolean;
};

/** The first page whose path matches is shown. */
export const PAGES: Page[] = [
  { path: "/", nav: "Overview", load: () => import("./pages/overview") },
  { path: "/jobs", nav: "Jobs", load: () => import("./pages/jobs") },
  { path: "/jobs/:jobid/vertices/:vertexid/:tab?", load: () => import("./pages/vertex") },
  { path: "/jobs/:jobid/:tab?", load: () => import("./pages/job") },
  { path: "/taskmanagers", nav: "TaskExecutors", load: () => import("./pages/taskmanagers"), needsCluster: true },
  { path: "/taskmanagers/:taskmanagerid/:tab?", load: () => import("./pages/taskmanager"), needsCluster: true },
  { path: "/jobmanager", nav: "Dispatcher", load: () => import("./pages/jobmanager"), needsCluster: true },
  { path: "/jobmanager/:tab", load: () => import("./pages/jobmanager"), needsCluster: true },
  { path: "/submit", nav: "Submit", load: () => import("./pages/submit"), needsCluster: true, feature: "web-submit" },
];
