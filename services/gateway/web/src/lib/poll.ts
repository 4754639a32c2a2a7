// The one loop in which a page asks again and again. No imports of the page's data: the one-file page uses it too.

import type { Clock } from "./clock";
import { backoff, Problem } from "./problem";

/** Asks once; gives the seconds until it shall be asked again, or nothing when that is not needed any more. */
export type Attempt = (failures: number) => Promise<number | void>;

/** Is told of each failure, and in how many seconds it is tried again: nothing when it will not be. */
export type Failed = (failure: unknown, retryIn: number | undefined) => void;

/**
 * Repeats `attempt` until it is done, is refused for good, or the signal is aborted. What may pass is waited out, longer
 * each time, but no longer than until the browser says that the network is back.
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

/** Moves a pause by up to ±10 %: the server advises whole seconds, at which a crowd would come together. */
const spread = (seconds: number): number => seconds * (0.9 + 0.2 * Math.random());

async function waitOrOnline(clock: Clock, seconds: number, signal?: AbortSignal): Promise<void> {
  const over = new AbortController();
  const stop = (): void => over.abort();
  addEventListener("online", stop, { signal: over.signal });
  signal?.addEventListener("abort", stop, { signal: over.signal });
  await clock.wait(seconds, over.signal);
  over.abort();
}
