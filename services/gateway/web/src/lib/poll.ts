// The polling loop of all pages. No imports of page data: the single-file page uses it too.

import type { Clock } from "./clock";
import { backoff, Problem } from "./problem";

/** Polls once; returns the seconds until the next poll, or undefined when done. */
export type Attempt = (failures: number) => Promise<number | void>;

/** Called on each failure with the seconds until the retry, or undefined if there is none. */
export type Failed = (failure: unknown, retryIn: number | undefined) => void;

/**
 * Repeats `attempt` until it is done, fails permanently, or the signal is aborted. Temporary
 * failures are retried with growing pauses, which end early when the browser is online again.
 */
export async function poll(clock: Clock, attempt: Attempt, failed: Failed, signal?: AbortSignal): Promise<void> {
  for (let failures = 0; !signal?.aborted; ) {
    try {
      const pause = await attempt(failures);
      if (typeof pause !== "number") return;
      failures = 0;
      await clock.wait(spread(pause), signal);
    } catch (failure) {
      if (signal?.aborted) return;
      if (!(failure instanceof Problem) || !failure.temporary) return failed(failure, undefined);
      const pause = backoff(++failures, failure.retryAfter);
      failed(failure, pause);
      await waitOrOnline(clock, pause, signal);
    }
  }
}

/**
 * Varies a pause by up to ±10 %: the server advises whole seconds, which would synchronise a crowd.
 */
export const spread = (seconds: number): number => seconds * (0.9 + 0.2 * Math.random());

async function waitOrOnline(clock: Clock, seconds: number, signal?: AbortSignal): Promise<void> {
  const over = new AbortController();
  const stop = (): void => over.abort();
  addEventListener("online", stop, { signal: over.signal });
  signal?.addEventListener("abort", stop, { signal: over.signal });
  await clock.wait(seconds, over.signal);
  over.abort();
}
