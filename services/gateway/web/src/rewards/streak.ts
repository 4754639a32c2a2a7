// The days in a row and the bonuses for them. No imports of page data, so that both can be tested.

import type en from "../../../internal/web/lang/en.json";
import { fill } from "../lib/wait";
import type { Milestone } from "../lib/types";

export interface NextBonus {
  // The number of days in a row that earns it.
  day: number;
  toGo: number;
}

/**
 * The nearest bonus ahead of a streak. One that repeats is paid at each multiple of its day, any
 * other once per member, even if the streak begins again.
 */
export function nextBonus(milestones: Milestone[], reached: number[], streak: number): NextBonus | undefined {
  const days = milestones
    .filter((m) => m.every || !reached.includes(m.day))
    .map((m) => (m.every ? (Math.floor(streak / m.day) + 1) * m.day : m.day))
    .filter((day) => day > streak);
  if (days.length === 0) return undefined;
  const day = Math.min(...days);
  return { day, toGo: day - streak };
}

/** The streak as text. Before today's attendance it still continues that of yesterday. */
export function streakText(streak: number, attendedToday: boolean, words: typeof en.campaign): string {
  if (streak === 0) return words.noStreak;
  const text = fill(words.streak, { n: streak });
  return attendedToday ? text : `${text} ${words.keep}`;
}
