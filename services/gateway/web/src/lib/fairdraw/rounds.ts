// The times of a beacon's rounds. No imports but types: pages show them without the curves.

import type { Beacon } from "./types";

/** When a round is published, in ms. */
export const timeOf = (c: Beacon, round: number): number => (c.genesis + (round - 1) * c.periodSeconds) * 1000;

/** The first round that is published at a time, in ms, or later. */
export function firstAt(c: Beacon, time: number): number {
  const seconds = Math.ceil(time / 1000);
  return seconds <= c.genesis ? 1 : Math.ceil((seconds - c.genesis) / c.periodSeconds) + 1;
}
