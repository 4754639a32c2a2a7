// Calls of the gateway's API.

import { loginPath, ownPath, page, strings } from "./page";
import { Problem, problemOf, request } from "./problem";

export { backoff, Problem } from "./problem";

export interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Calls `path` under /api/v1 and reads its JSON answer (undefined for 204); refusals are thrown as Problem. */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const answer = await send(method, path, options);
  if (!answer.ok) throw await problemOf(answer);
  if (answer.status === 204) return undefined as T;
  try {
    return (await answer.json()) as T;
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    throw new Problem(0, {}, 0);
  }
}

/** The bare answer, for callers that look at its status and headers. */
export function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  // The visitor's choice of language may differ from the browser's.
  const headers: Record<string, string> = { Accept: "application/json", "Accept-Language": page.lang, ...options.headers };
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  return request(`/api/v1${path}`, init);
}

/** Goes where a refusal sends the visitor: to sign in, or into a waiting room. False when it names no place. */
export function follow(failure: unknown): boolean {
  if (!(failure instanceof Problem)) return false;
  if (failure.status === 401) {
    location.assign(loginPath());
    return true;
  }
  if (failure.status === 403 && failure.body.redirectTo) {
    location.assign(ownPath(failure.body.redirectTo));
    return true;
  }
  return false;
}

/** What to tell the visitor about a failure. */
export function explain(failure: unknown): string {
  const common = strings("common");
  if (!(failure instanceof Problem)) return common.failed;
  if (failure.status === 0) return common.offline;
  return failure.message || common.failed;
}
