// Calls of the gateway's API.

import { hear } from "./now";
import { clock } from "./pace";
import { loginPath, ownPath, page, strings } from "./page";
import { backoff, Problem, problemOf, request } from "./problem";
import { uuid } from "./uuid";

export { Problem } from "./problem";

export interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  // How long the answer may take.
  seconds?: number;
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

/**
 * A call that makes something, once, however often it has to be repeated: the answer may be lost on the way, and without
 * the key a second try would be refused by what the first one did.
 */
export async function once<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const headers = { ...options.headers, "Idempotency-Key": uuid() };
  for (let failures = 1; ; failures++) {
    try {
      return await call<T>(method, path, { ...options, headers });
    } catch (failure) {
      if (!(failure instanceof Problem) || failures === 4) throw failure;
      if (!failure.temporary && failure.code !== "IDEMPOTENCY_IN_PROGRESS") throw failure;
      await clock.wait(backoff(failures, failure.retryAfter), options.signal);
    }
  }
}

/** The bare answer, for callers that look at its status and headers. */
export async function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  // The visitor's choice of language may differ from the browser's.
  const headers: Record<string, string> = { Accept: "application/json", "Accept-Language": page.lang, ...options.headers };
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  const sent = Date.now();
  const answer = await request(`/api/v1${path}`, init, options.seconds);
  hear(answer, sent);
  return answer;
}

/** Goes where a refusal sends the visitor: to sign in, or into a waiting room. False when it names no place. */
export function follow(failure: unknown): boolean {
  if (!(failure instanceof Problem)) return false;
  // Replaced, or the browser's way back would lead to this page, and from here away again.
  if (failure.status === 401) {
    location.replace(loginPath());
    return true;
  }
  if (failure.status === 403 && failure.body.redirectTo) {
    location.replace(ownPath(failure.body.redirectTo));
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
