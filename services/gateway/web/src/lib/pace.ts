// The clock of the page, and polling with it.

import { Clock } from "./clock";
import { page } from "./page";
import { type Attempt, type Failed, poll } from "./poll";

export const clock = new Clock(new Worker(page.clock, { type: "module" }));

export const repeat = (attempt: Attempt, failed: Failed, signal: AbortSignal): Promise<void> =>
  poll(clock, attempt, failed, signal);

/** Resolves when the page is visible: hidden tabs do not poll, except for a place in a line. */
export async function untilVisible(signal: AbortSignal): Promise<void> {
  while (document.hidden && !signal.aborted) {
    await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
}
