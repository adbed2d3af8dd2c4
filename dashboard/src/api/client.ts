/** Typed calls of the REST API. The types of paths, parameters and bodies are generated from its OpenAPI document. */
import type { components, paths } from "./schema";

export type Schema = components["schemas"];
export type GetPath = { [P in keyof paths]: paths[P] extends { get: unknown } ? P : never }[keyof paths] & string;
type Operation<P extends keyof paths, V extends string> = V extends keyof paths[P] ? paths[P][V] : never;
type Success<O> = O extends { responses: infer R } ? R[keyof R & (200 | 202)] : never;
/** The JSON body of a successful answer. */
export type Answer<P extends keyof paths, V extends string = "get"> =
  Success<Operation<P, V>> extends { content: { "application/json": infer B } } ? B : string;
export type Parameters = {
  path?: Record<string, string | number>;
  query?: Record<string, string | number | undefined>;
};

/** A service of the cluster answers within 10 s, or REST gives up on it. */
const TIMEOUT_MS = 12_000;

/** The server refused a request, or did not answer (`status` is 0). */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

/** Returns the URL of an operation, relative to the page. */
export function urlOf(template: string, parameters: Parameters = {}): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters.path?.[name];
    if (value === undefined) throw new Error(`${template} needs the parameter ${name}`);
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters.query ?? {})) {
    if (value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return `/v1${path}${text ? `?${text}` : ""}`;
}

/** Sends one request and returns its answer, which the server may have given in part from its cache. */
async function send(
  verb: string,
  url: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: verb,
      credentials: "same-origin",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(body instanceof FormData
        ? { body, headers }
        : body === undefined
          ? { headers }
          : { body: JSON.stringify(body), headers: { ...headers, "content-type": "application/json" } }),
    });
  } catch (error) {
    throw new ApiError(
      0,
      error instanceof Error && error.name === "TimeoutError" ? "no answer in time" : "no connection",
    );
  }
  if (!response.ok) throw new ApiError(response.status, await messageOf(response));
  return response;
}

async function messageOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { errors } = JSON.parse(text) as { errors?: string[] };
    if (errors?.length) return errors.join("\n");
  } catch {
    // Not from our server, e.g. from a proxy: the text itself is the message.
  }
  return text.slice(0, 1_000) || response.statusText;
}

/** GET of an operation with a JSON answer. */
export async function get<P extends GetPath>(path: P, parameters: Parameters = {}): Promise<Answer<P>> {
  return (await (await send("GET", urlOf(path, parameters))).json()) as Answer<P>;
}

/** GET of an operation with an answer in plain text, such as a log. */
export async function getText(path: GetPath, parameters: Parameters = {}): Promise<string> {
  return (await send("GET", urlOf(path, parameters))).text();
}

/** The end of a text, such as a log: at most `bytes` bytes of it, and how long it is in all. */
export async function getTail(
  path: GetPath,
  parameters: Parameters,
  bytes: number,
): Promise<{ text: string; isWhole: boolean; totalBytes: number }> {
  const response = await send("GET", urlOf(path, parameters), undefined, { range: `bytes=-${bytes}` });
  const text = await response.text();
  const total = Number(response.headers.get("content-range")?.split("/")[1] ?? text.length);
  return { text, isWhole: response.status !== 206, totalBytes: total };
}

/** POST, PATCH, PUT or DELETE of an operation. The role `read` gets status 403. */
export async function change<P extends keyof paths & string, V extends "POST" | "PATCH" | "PUT" | "DELETE">(
  verb: V,
  path: P,
  parameters: Parameters = {},
  body?: unknown,
): Promise<Answer<P, Lowercase<V>>> {
  const text = await (await send(verb, urlOf(path, parameters), body)).text();
  return (text ? JSON.parse(text) : {}) as Answer<P, Lowercase<V>>;
}
