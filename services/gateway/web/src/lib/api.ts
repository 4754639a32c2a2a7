// Calls of the gateway's API.

import { formatDuration } from "./format";
import { observeServerTime } from "./now";
import { loginPath, onward } from "./onward";
import { clock } from "./pace";
import { fill, ownPath, page, strings } from "./page";
import { backoff, holdPaused, Problem, problemOf, request } from "./problem";
import { uuid } from "./uuid";

export { Problem } from "./problem";

export interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  // The time-out of the response.
  seconds?: number;
  // Is told the response of a successful call, for its headers.
  answered?: (answer: Response) => void;
}

/**
 * Calls `path` under /api/v1, or one of the waiting room, and returns its JSON response (undefined for 204). Errors are thrown
 * as Problem.
 */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const answer = await send(method, path, options);
  if (!answer.ok) throw await problemOf(answer);
  options.answered?.(answer);
  if (answer.status === 204) return undefined as T;
  try {
    return (await answer.json()) as T;
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    throw new Problem(0, {}, 0);
  }
}

/**
 * Calls with an idempotency key, by default a new one, and retries temporary failures: a response
 * may be lost, and without the key a retry would be refused because of the first attempt.
 */
export async function once<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const headers = { "Idempotency-Key": uuid(), ...options.headers };
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

/** Returns the response itself, for callers that need its status and headers. */
export async function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  // The visitor may have chosen another language than that of the browser.
  const headers: Record<string, string> = { Accept: "application/json", "Accept-Language": page.lang, ...options.headers };
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  const sent = Date.now();
  const answer = await request(path.startsWith("/vwr-api/") ? path : `/api/v1${path}`, init, options.seconds);
  observeServerTime(answer, sent);
  return answer;
}

/**
 * Goes where an error sends the visitor: to sign in, or to a waiting room. Returns false if it
 * names no target.
 */
export function follow(failure: unknown): boolean {
  if (!(failure instanceof Problem)) return false;
  // Replaced, since the back button would lead to this page and away again.
  if (failure.status === 401) {
    location.replace(loginPath());
    return true;
  }
  if (failure.status === 403 && failure.body.redirectTo) {
    location.replace(onward(ownPath(failure.body.redirectTo)));
    return true;
  }
  return false;
}

/** The text of a failure for the visitor. */
export function explain(failure: unknown): string {
  const common = strings("common");
  if (!(failure instanceof Problem)) return common.failed;
  if (failure.status === 0) return common.offline;
  if (failure.code === holdPaused) return fill(common.pausedFor, { failure: failure.message, wait: formatDuration(failure.retryAfter) });
  const { returning, returned, limit = "", left = "" } = failure.body;
  if (returned) return fill(common.returnsLeft, { failure: failure.message, returned, limit, left });
  if (returning) return fill(common.comingBack, { failure: failure.message, returning });
  return failure.message || common.failed;
}
