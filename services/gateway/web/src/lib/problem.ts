// The gateway's refusals (RFC 9457) and how long to wait before trying again. No imports: the one-file page uses it too.

export interface ProblemBody {
  title?: string;
  status?: number;
  detail?: string;
  code?: string;
  error?: string;
  requestId?: string;
  redirectTo?: string;
  retryAfter?: number;
  seatIds?: string[];
}

/** A refused or failed call. `status` is 0 when no answer came. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly body: ProblemBody,
    readonly retryAfter: number,
  ) {
    super(body.detail ?? body.error ?? body.title ?? "");
  }

  get code(): string {
    return this.body.code ?? "";
  }

  /** Trying the same again may work: no answer, an overload, a failure of the server. */
  get temporary(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** Reads a refusal; a body that is no problem document counts as an empty one. */
export async function problemOf(answer: Response): Promise<Problem> {
  let body: ProblemBody = {};
  try {
    const parsed: unknown = await answer.json();
    if (parsed && typeof parsed === "object") body = parsed as ProblemBody;
  } catch {
    // Not JSON: a proxy's own page, or cut off. The status says enough.
  }
  const header = Number(answer.headers.get("Retry-After"));
  const retryAfter = body.retryAfter ?? (Number.isFinite(header) ? header : 0);
  return new Problem(answer.status, body, retryAfter);
}

/**
 * fetch, whose failure to get an answer in time is a Problem with status 0; an abort stays an abort. A connection that
 * has silently gone would keep the page waiting for minutes.
 */
export async function request(url: string, init: RequestInit, seconds = 15): Promise<Response> {
  // AbortSignal.any would say this in a word, but phones of 2023 do not know it.
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  setTimeout(abort, seconds * 1000);
  init.signal?.addEventListener("abort", abort, { signal: stop.signal });
  if (init.signal?.aborted) abort();
  try {
    return await fetch(url, { ...init, signal: stop.signal });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new Problem(0, {}, 0);
  }
}

/** Seconds before attempt n (from 1) is repeated: 1, 2, 4 … 30, ±20 % so that a crowd does not return at once. */
export function backoff(attempt: number, retryAfter = 0): number {
  const base = Math.min(30, 2 ** (attempt - 1));
  return Math.max(retryAfter, base) * (0.8 + 0.4 * Math.random());
}
