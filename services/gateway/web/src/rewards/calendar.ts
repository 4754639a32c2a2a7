// Days of a campaign: those of Korea, which has no daylight saving time. Days are written as
// 2026-03-07 and months as 2026-03, so that they compare as text.

const offset = 9 * 3600_000;
const dayLength = 86_400_000;

/** The day in Korea at a time in epoch milliseconds. */
export const dayAt = (time: number): string => new Date(time + offset).toISOString().slice(0, 10);

export const monthOf = (day: string): string => day.slice(0, 7);

/** Milliseconds until the next day in Korea. */
export const untilNextDay = (time: number): number => dayLength - ((time + offset) % dayLength);

/** The first and last day of a campaign, whose end is exclusive. */
export const daysOf = (opensAt: string, closesAt: string): { first: string; last: string } => ({
  first: dayAt(Date.parse(opensAt)),
  last: dayAt(Date.parse(closesAt) - 1),
});

/** The month before (-1) or after (1). */
export function monthAfter(month: string, by: -1 | 1): string {
  const date = new Date(`${month}-01T00:00:00Z`);
  date.setUTCMonth(date.getUTCMonth() + by);
  return monthOf(date.toISOString());
}

/** The weeks of a month from Sunday to Saturday; places outside the month are undefined. */
export function weeksOf(month: string): (string | undefined)[][] {
  const first = new Date(`${month}-01T00:00:00Z`);
  const places: (string | undefined)[] = Array.from({ length: first.getUTCDay() }, () => undefined);
  for (let time = first.getTime(); monthOf(new Date(time).toISOString()) === month; time += dayLength) {
    places.push(new Date(time).toISOString().slice(0, 10));
  }
  while (places.length % 7 !== 0) places.push(undefined);
  return Array.from({ length: places.length / 7 }, (_, week) => places.slice(7 * week, 7 * week + 7));
}
