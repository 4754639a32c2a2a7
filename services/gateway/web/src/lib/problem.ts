// Problem documents of the gateway (RFC 9457) and the back-off of retries. No imports: the
// single-file page uses it too.

export interface ProblemBody {
  title?: string;
  status?: number;
  detail?: string;
  code?: string;
  error?: string;
  requestId?: string;
  redirectTo?: string;
  retryAfter?: number;
  // Of an application before the visitor's own time: that time and the opening, epoch ms.
  asksAt?: string;
  opensAt?: string;
  seatIds?: string[];
  // What a refund would give back.
  amount?: string;
  // Of a limit of places: places given back that still count for it; places given back in all, and how many more can be held.
  returning?: string;
  limit?: string;
  returned?: string;
  left?: string;
  // Of a code that admits nobody: why, when and where the ticket was used, and its place.
  why?: string;
  usedAt?: string;
  deviceId?: string;
  seatId?: string;
  section?: string;
}

/** The code of the refusal of a hold, after unpaid ones, until retryAfter. */
export const holdPaused = "HOLD_PAUSED";

/** A refused or failed call. `status` is 0 when there was no response. */
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

  /** A retry may succeed: no response, overload, or a server error. A pause between holds is the visitor's to know. */
  get temporary(): boolean {
    if (this.code === holdPaused) return false;
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** Parses an error response; a body that is not a problem document counts as empty. */
export async function problemOf(answer: Response): Promise<Problem> {
  let body: ProblemBody = {};
  try {
    const parsed: unknown = await answer.json();
    if (parsed && typeof parsed === "object") body = parsed as ProblemBody;
  } catch {
    // Not JSON: the page of a proxy, or truncated. The status suffices.
  }
  const header = Number(answer.headers.get("Retry-After"));
  const retryAfter = body.retryAfter ?? (Number.isFinite(header) ? header : 0);
  return new Problem(answer.status, body, retryAfter);
}

/**
 * fetch with a time-out: without a response it throws a Problem with status 0; an abort is passed
 * on. A dead connection would block the page for minutes.
 */
export async function request(url: string, init: RequestInit, seconds = 15): Promise<Response> {
  // AbortSignal.any is not supported by phones of 2023.
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

/**
 * Seconds before retry n (from 1): 1, 2, 4 … 30 ± 50 %, but at least as advised. The longer an outage
 * lasts, the wider the crowd is spread that waits for its end.
 */
export function backoff(attempt: number, retryAfter = 0): number {
  const base = Math.min(30, 2 ** (attempt - 1));
  return Math.max(retryAfter, base / 2) + base * Math.random();
}
