// The polling loop of all pages. No imports of page data: the single-file page uses it too.

import type { Clock } from "./clock";
import { serverNow } from "./now";
import { backoff, Problem } from "./problem";

/** An instant of the server's clock, in epoch ms, that was chosen for this visitor alone. */
export interface Turn {
  at: number;
}

/** Polls once; returns the seconds until the next poll or its very instant, or undefined when done. */
export type Attempt = (failures: number) => Promise<number | Turn | void>;

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
      if (pause === undefined) return;
      failures = 0;
      await clock.wait(typeof pause === "number" ? spread(pause) : Math.max(0, pause.at - serverNow()) / 1000, signal);
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
 * When to ask next whose turn is at asksAt (0: unknown) and who is advised to look again after so many
 * seconds: at the turn, if it comes first. Whose clock is ahead was told too early that it had come, and
 * would ask without a pause until it has.
 */
export function nextAsk(asksAt: number, advised: number): number | Turn {
  const left = (asksAt - serverNow()) / 1000;
  return left > 0 && left <= 1.2 * advised ? { at: asksAt } : Math.max(1, advised);
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
