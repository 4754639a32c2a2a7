import "./browser";
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { open } from "../src/checkout/payment";

/** Opens the checkout of a reservation whose payment was confirmed without an answer. */
async function opened(reservation: string, payment: string): Promise<{ calls: string[]; again: boolean | undefined }> {
  const calls: string[] = [];
  Object.assign(globalThis, {
    sessionStorage: { getItem: (key: string) => (key === "urr-payment-r" ? "p" : null), setItem: () => undefined, removeItem: () => undefined },
    fetch: (url: string, init: RequestInit) => {
      calls.push(`${init.method} ${url.replace(/^.*\/v1/, "")}`);
      const held = { reservationId: "r", status: reservation };
      const unpaid = reservation === "HELD" || reservation === "PAYING";
      const checkout = { reservation: held, ...(unpaid ? { payment: { paymentId: "p", status: payment } } : {}) };
      return Promise.resolve(new Response(JSON.stringify(url.includes("/payments/") ? checkout : held)));
    },
  });
  const step = await open("r", new AbortController().signal);
  return { calls, again: step.again };
}

test("the same payment is offered again while it is prepared", async () => {
  const got = await opened("PAYING", "PREPARED");
  equal(got.again, true);
});

test("reservation and payment are read by one call", async () => {
  for (const [reservation, payment] of [["PAYING", "PREPARED"], ["PAYING", "PENDING"], ["HELD", "PREPARED"], ["CONFIRMED", "CONFIRMED"]] as const) {
    deepEqual((await opened(reservation, payment)).calls, ["GET /my/reservations/r/payments/p"]);
  }
});

test("a payment in progress is not offered again", async () => {
  equal((await opened("PAYING", "PENDING")).again, undefined);
  equal((await opened("CONFIRMED", "CONFIRMED")).again, undefined);
});
