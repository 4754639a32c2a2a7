import "./browser";
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import en from "../../internal/web/lang/en.json";
import ko from "../../internal/web/lang/ko.json";
import type { Place } from "../src/lib/types";
import { waitText } from "../src/lib/wait";
import { placeText, waitOf } from "../src/queue/figures";

const waiting: Place = {
  status: "queued",
  position: 58,
  peopleAhead: 57,
  peopleBehind: 0,
  nextPoll: 1,
  currentUsers: 2,
  threshold: 2,
};

test("a wait that is not known yet is being measured, in both languages", () => {
  deepEqual([waitText(undefined, en.wait), waitText(undefined, ko.wait)], ["being measured", "계산 중"]);
  equal(placeText(waiting), "You are number 58 in the line. Estimated wait: being measured.");
  equal(placeText({ ...waiting, estimatedWait: 300 }), "You are number 58 in the line. Estimated wait: about 5 min.");
});

test("while nobody is let in there is no estimate", () => {
  for (const halt of [
    { paused: true },
    { threshold: 0 },
    { saleStatus: "PAUSED" },
    { saleStatus: "SOLD_OUT" },
    { saleStatus: "SCHEDULED" },
    { saleStatus: "PRESALE", entitled: false },
  ] as Partial<Place>[]) {
    const place = { ...waiting, ...halt };
    equal(waitOf(place), undefined);
    equal(placeText(place), "You are number 58 in the line.");
  }
  equal(waitOf({ ...waiting, saleStatus: "SCHEDULED", estimatedWait: 65 }), "about 2 min");
  equal(waitOf({ ...waiting, saleStatus: "PRESALE", entitled: true }), "being measured");
});
