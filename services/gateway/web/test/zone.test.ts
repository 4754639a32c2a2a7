// The runner sets the time zone of the visitor: Europe/Berlin.

import "./browser";
import { equal, match } from "node:assert/strict";
import { test } from "node:test";
import { formatEventTime, formatEventTimes, zoneName, zoneUnknown } from "../src/lib/zone";

// Intl separates the time from AM and PM by a narrow space.
const plain = (text: string) => text.replaceAll(/[\u2009\u202f]/g, " ");
const winter = "2030-01-10T10:00:00Z";
const summer = "2030-07-10T10:00:00Z";

test("a time in another zone is shown in both", () => {
  const text = plain(formatEventTime("Asia/Seoul", winter));
  equal(text, "Thu, Jan 10, 2030, 7:00 PM GMT+9 (your time: Thu, Jan 10, 2030, 11:00 AM GMT+1)");
});

test("a time in the zone of the visitor is shown once", () => {
  equal(plain(formatEventTime("Europe/Berlin", winter)), "Thu, Jan 10, 2030, 11:00 AM GMT+1");
});

test("a zone whose clocks show the same is shown once", () => {
  equal(plain(formatEventTime("Europe/Paris", summer)), "Wed, Jul 10, 2030, 12:00 PM GMT+2");
});

test("clocks are compared at the time that is shown", () => {
  equal(plain(formatEventTime("Africa/Lagos", winter)), "Thu, Jan 10, 2030, 11:00 AM GMT+1");
  match(formatEventTime("Africa/Lagos", summer), /your time/);
});

test("a span of time is shown in both zones if they differ at its start or its end", () => {
  equal(plain(formatEventTimes("Europe/Paris", winter, summer)).includes("your time"), false);
  const both = plain(formatEventTimes("Africa/Lagos", winter, summer));
  match(both, /^Thu, Jan 10, 2030, 11:00 AM GMT\+1 – Wed, Jul 10, 2030, 11:00 AM GMT\+1 \(your time: .* 12:00 PM GMT\+2\)$/);
});

test("the name of the zone is that of the event", () => {
  equal(zoneName("Asia/Seoul", winter), "Korean Standard Time");
  equal(zoneName("America/New_York", summer), "Eastern Daylight Time");
  equal(zoneUnknown("Asia/Seoul"), false);
});

test("without a zone that is known, times are in that of the visitor", () => {
  for (const zone of [undefined, "", "Mars/Olympus"]) {
    equal(plain(formatEventTime(zone, winter)), "Thu, Jan 10, 2030, 11:00 AM GMT+1");
    equal(zoneName(zone, winter), "Central European Standard Time");
    equal(zoneUnknown(zone), true);
  }
});
