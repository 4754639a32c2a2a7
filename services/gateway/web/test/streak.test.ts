import { equal } from "node:assert/strict";
import { test } from "node:test";
import en from "../../internal/web/lang/en.json";
import ko from "../../internal/web/lang/ko.json";
import type { Milestone } from "../src/lib/types";
import { nextBonus, streakText } from "../src/rewards/streak";

const bonus = (day: number, every = false): Milestone => ({ day, kind: "POINT", value: 100, every });

// The bonuses, those reached, the streak, and the next bonus with the days until it.
for (const [name, milestones, reached, streak, day, toGo] of [
  ["the first", [bonus(7), bonus(3)], [], 0, 3, 3],
  ["the next", [bonus(3), bonus(7)], [3], 3, 7, 4],
  ["one that is reached is not paid again in another streak", [bonus(3), bonus(7)], [3], 1, 7, 6],
  ["one that repeats", [bonus(5, true)], [5], 5, 10, 5],
  ["the nearer of both", [bonus(5, true), bonus(7)], [5], 6, 7, 1],
  ["each day", [bonus(1, true)], [1], 4, 5, 1],
] as const) {
  test(`next bonus: ${name}`, () => {
    const next = nextBonus([...milestones], [...reached], streak);
    equal(next?.day, day);
    equal(next?.toGo, toGo);
  });
}

test("next bonus: none is left", () => {
  equal(nextBonus([bonus(3)], [3], 3), undefined);
  equal(nextBonus([], [], 0), undefined);
});

test("the streak as text", () => {
  equal(streakText(0, false, en.campaign), "No days in a row yet.");
  equal(streakText(3, true, en.campaign), "Days in a row: 3.");
  equal(streakText(3, false, en.campaign), "Days in a row: 3. Attend today to continue.");
  equal(streakText(3, true, ko.campaign), "3일 연속 출석 중입니다.");
});
