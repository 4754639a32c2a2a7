import { equal } from "node:assert/strict";
import { test } from "node:test";
import { dayAt, daysOf, monthAfter, monthOf, untilNextDay, weeksOf } from "../src/rewards/calendar";

test("a day begins at midnight in Korea", () => {
  equal(dayAt(Date.parse("2026-03-06T14:59:59.999Z")), "2026-03-06");
  equal(dayAt(Date.parse("2026-03-06T15:00:00Z")), "2026-03-07");
  equal(untilNextDay(Date.parse("2026-03-06T14:59:59.999Z")), 1);
  equal(untilNextDay(Date.parse("2026-03-06T15:00:00Z")), 86_400_000);
});

test("the end of a campaign is exclusive", () => {
  const { first, last } = daysOf("2026-02-28T15:00:00Z", "2026-03-31T15:00:00Z");
  equal(first, "2026-03-01");
  equal(last, "2026-03-31");
});

test("months follow each other over the end of a year", () => {
  equal(monthOf("2026-12-31"), "2026-12");
  equal(monthAfter("2026-12", 1), "2027-01");
  equal(monthAfter("2026-01", -1), "2025-12");
});

// The first weekday, the number of days and of weeks.
for (const [month, first, days, weeks] of [
  ["2026-02", 0, 28, 4],
  ["2026-03", 0, 31, 5],
  ["2026-08", 6, 31, 6],
  ["2028-02", 2, 29, 5],
] as const) {
  test(`the weeks of ${month}`, () => {
    const all = weeksOf(month);
    equal(all.length, weeks);
    equal(all.every((week) => week.length === 7), true);
    equal(all[0]?.indexOf(`${month}-01`), first);
    const named = all.flat().filter((day) => day !== undefined);
    equal(named.length, days);
    equal(named.at(-1), `${month}-${days}`);
    equal(JSON.stringify(named), JSON.stringify([...named].sort()));
  });
}
