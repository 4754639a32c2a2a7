// How often a visitor with a number polls; pkg/waits advises the same.

const longest = 60;
const pollsPerWait = 20;

/**
 * Seconds until the next poll, before it is spread: a twentieth of the wait, and at least as the number
 * of people ahead demands. Without an estimate, as before an opening, only the latter counts, so that
 * nobody misses it.
 */
export function pollInterval(ahead: number, estimatedWait: number | undefined): number {
  const least = ahead <= 500 ? 2 : ahead <= 2_000 ? 5 : ahead <= 10_000 ? 10 : 15;
  return Math.min(longest, Math.max(least, (estimatedWait ?? 0) / pollsPerWait));
}
