import "./browser";
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import en from "../../internal/web/lang/en.json";
import { buyable, statusByClock, untilChange, untilOpening } from "../src/lib/sale";
import { saleText } from "../src/lib/standing";
import type { EventStatus, SaleEvent } from "../src/lib/types";

const inMinutes = (m: number): string => new Date(Date.now() + m * 60_000).toISOString();

const event = (status: EventStatus, presale: number | undefined, opens: number): SaleEvent =>
  ({ status, salesOpenAt: inMinutes(opens), ...(presale !== undefined && { presale: { opensAt: inMinutes(presale) } }) }) as SaleEvent;

test("a sale opens at both of its times without a poll", () => {
  for (const status of ["SCHEDULED", "PRESALE"] as const) {
    equal(statusByClock(event(status, 1, 60)), "SCHEDULED");
    equal(statusByClock(event(status, -1, 60)), "PRESALE");
    equal(statusByClock(event(status, -60, -1)), "ON_SALE");
  }
  equal(statusByClock(event("SCHEDULED", undefined, 1)), "SCHEDULED");
  equal(statusByClock(event("SCHEDULED", undefined, -1)), "ON_SALE");
  for (const status of ["PAUSED", "SOLD_OUT", "CLOSED"] as const) equal(statusByClock(event(status, -60, 1)), status);
});

test("the next poll is at the next opening", () => {
  deepEqual([untilOpening(event("SCHEDULED", 2, 60)), untilOpening(event("PRESALE", -1, 3))].map(Math.round), [120, 180]);
  const next = untilChange(event("SCHEDULED", 2, 60), 0) ?? 0;
  equal(Math.round(next), 121);
});

test("in a presale a place says whom it is for", () => {
  equal(buyable(event("PRESALE", -1, 1)), true);
  equal(saleText("PRESALE", en.sale, true), `${en.sale.PRESALE} ${en.sale.kept}`);
});
