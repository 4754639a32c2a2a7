import "./browser";
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { billOf, membershipBill, membershipSource, reservationSource, transferSource } from "../src/checkout/bill";
import { begin, giveBack, open, pageAddress, type Step } from "../src/checkout/payment";
import { arrived } from "../src/checkout/returned";
import type { Membership, Payment, Reservation, Transfer } from "../src/lib/types";

type Answer = [status: number, body: unknown];

/** Answers the calls of a test by their method and path, each with its answers in turn; the last one is repeated. */
function serve(answers: Record<string, Answer[]>, stored = ""): string[] {
  const calls: string[] = [];
  Object.assign(globalThis, {
    sessionStorage: { getItem: () => stored || null, setItem: () => undefined, removeItem: () => undefined },
    fetch: (url: string, init: RequestInit) => {
      const name = `${init.method} ${url.replace(/^.*\/v1/, "")}`;
      calls.push(name);
      const list = answers[name] ?? [[404, {}]];
      const [status, body] = (list.length > 1 ? list.shift() : list[0]) ?? [404, {}];
      return Promise.resolve(new Response(status === 204 ? null : JSON.stringify(body), { status }));
    },
  });
  return calls;
}

const held = { reservationId: "r", status: "HELD", amount: 100 } as Reservation;
const source = reservationSource("r");
const signal = new AbortController().signal;

/** Opens the checkout of a reservation with a payment that this tab knows. */
async function opened(reservation: string, payment: string): Promise<{ calls: string[]; step: Step<Reservation> }> {
  const unpaid = reservation === "HELD" || reservation === "PAYING";
  const body = { reservation: { ...held, status: reservation }, ...(unpaid ? { payment: { paymentId: "p", status: payment } } : {}) };
  const calls = serve({ "GET /my/reservations/r/payments/p": [[200, body]] }, "p");
  return { calls, step: await open(source, signal) };
}

test("a payment of which nothing was charged is offered again", async () => {
  equal((await opened("PAYING", "PREPARED")).step.open?.paymentId, "p");
  equal((await opened("PAYING", "OPEN")).step.open?.paymentId, "p");
  equal((await opened("HELD", "OPEN")).step.open?.paymentId, "p");
});

test("reservation and payment are read by one call", async () => {
  for (const [reservation, payment] of [["PAYING", "PREPARED"], ["PAYING", "PENDING"], ["HELD", "PREPARED"], ["CONFIRMED", "CONFIRMED"]] as const) {
    deepEqual((await opened(reservation, payment)).calls, ["GET /my/reservations/r/payments/p"]);
  }
});

test("a payment in progress is not offered again", async () => {
  equal((await opened("PAYING", "PENDING")).step.open, undefined);
  equal((await opened("CONFIRMED", "CONFIRMED")).step.open, undefined);
});

test("a payment that ended says how", async () => {
  equal((await opened("HELD", "EXPIRED")).step.unpaid, true);
  equal((await opened("HELD", "DECLINED")).step.declined, "DECLINED");
});

test("a payment that is open in another tab is found", async () => {
  const paying = { ...held, status: "PAYING", paymentId: "q" };
  serve({
    "GET /my/reservations/r": [[200, paying]],
    "GET /my/reservations/r/payments/q": [[200, { reservation: paying, payment: { paymentId: "q", status: "OPEN" } }]],
  });
  equal((await open(source, signal)).open?.paymentId, "q");
});

test("prepare is repeated until there is a page", async () => {
  Object.assign(Worker.prototype, {
    postMessage(this: Worker, timer: { id: number }): void {
      queueMicrotask(() => this.onmessage?.({ data: timer.id } as MessageEvent));
    },
  });
  const left: string[] = [];
  Object.assign(globalThis, { location: { pathname: "/", search: "", hash: "", assign: (url: string) => left.push(url) } });
  const prepared = { paymentId: "p", orderId: "o", status: "PREPARED", provider: "bank" };
  const calls = serve({
    "POST /payments/prepare": [[201, prepared], [201, prepared], [201, { ...prepared, status: "OPEN", page: { url: "https://bank/pay" } }]],
  });
  equal(await begin({ source, bill: held }, "bank"), "leaving");
  deepEqual([calls.length, left], [3, ["https://bank/pay"]]);
});

test("a payment that its provider does not take ends with the reason", async () => {
  const ended = { paymentId: "p", orderId: "o", status: "DECLINED", provider: "bank", declineCode: "NOT_TAKEN" };
  const calls = serve({ "POST /payments/prepare": [[201, ended]] });
  const begun = (await begin({ source, bill: held }, "bank")) as Step;
  deepEqual([calls.length, begun.bill.status, begun.paymentId], [1, "PAYING", "p"]); // the outcome is read
  serve({ "GET /my/reservations/r/payments/p": [[200, { reservation: held, payment: ended }]] }, "p");
  equal((await open(source, signal)).declined, "NOT_TAKEN");
});

test("a refusal is a step, and a form is made here", async () => {
  serve({ "POST /payments/prepare": [[409, { code: "NOT_PAYABLE" }]], "GET /my/reservations/r": [[200, held]] });
  const refused = await begin({ source, bill: held }, "bank");
  equal((refused as Step).bill.status, "HELD");
  const prepared = { paymentId: "p", orderId: "o", status: "PREPARED", provider: "sandbox", page: { params: {} } };
  serve({ "POST /payments/prepare": [[201, prepared]] });
  deepEqual(await begin({ source, bill: held }, "sandbox"), prepared);
});

test("only web pages are opened", () => {
  equal(pageAddress({ url: "https://bank/pay" }), "https://bank/pay");
  for (const url of ["javascript:alert(1)", "data:text/html,x", "/pay", "", undefined]) equal(pageAddress(url === undefined ? {} : { url }), undefined);
});

test("places are given back once a payment that was not sent has ended", async () => {
  const refusal: Answer = [409, { code: "RESERVATION_NOT_HELD" }];
  const answers = () => ({ "DELETE /my/reservations/r": [refusal, [204, null] as Answer], "POST /payments/p/cancel": [[200, {}] as Answer] });
  const calls = serve(answers());
  const step = { source, bill: held, open: { paymentId: "p" } as Payment };
  equal((await giveBack(step)).bill.status, "CANCELLED");
  deepEqual(calls, ["DELETE /my/reservations/r", "POST /payments/p/cancel", "DELETE /my/reservations/r"]);
  serve(answers());
  equal(await giveBack({ source, bill: held }).catch(() => "refused"), "refused");
});

const taken = { transferId: "t", status: "AWAITING_PAYMENT", role: "BUYER", price: 70, currency: "KRW" } as Transfer;
const offer = transferSource(taken, { claim: "c" });

test("an offer is its buyer's to pay, until it is paid, open again, or over", () => {
  const status = (change: Partial<Transfer>) => billOf({ ...taken, ...change }).status;
  equal(status({}), "HELD");
  equal(status({ paymentId: "p" }), "PAYING");
  equal(status({ status: "COMPLETED" }), "CONFIRMED");
  equal(status({ status: "EXPIRED" }), "EXPIRED");
  equal(status({ role: "", status: "OPEN" }), "EXPIRED");
  equal(status({ role: "", status: "COMPLETED" }), "EXPIRED");
  equal(billOf(taken).amount, 70);
});

test("a payment of an offer that is open elsewhere is found", async () => {
  const calls = serve({
    "POST /transfers/look": [[200, { ...taken, paymentId: "p" }]],
    "GET /payments/p": [[200, { paymentId: "p", status: "OPEN" }]],
  });
  equal((await open(offer, signal)).open?.paymentId, "p");
  deepEqual(calls, ["POST /transfers/look", "GET /payments/p"]);
});

test("an offer that is not to be found any more is over, and one paid too late is refunded", async () => {
  const late: Record<string, Answer[]> = { "POST /transfers/look": [[404, { code: "TRANSFER_NOT_FOUND" }]], "GET /payments/p": [[200, { paymentId: "p", status: "CONFIRMED" }]] };
  serve(late);
  equal((await open(offer, signal)).bill.status, "EXPIRED");
  serve(late, "p");
  equal((await open(offer, signal)).bill.status, "REJECTED");
  serve({ "POST /transfers/look": [[403, {}]] });
  equal(await open(offer, signal).catch(() => "refused"), "refused");
});

test("who gives an accepted offer up ends the payment first", async () => {
  const ended = { "POST /payments/p/cancel": [[200, {}] as Answer], "POST /my/transfers/t/cancel": [[200, {}] as Answer] };
  const calls = serve(ended);
  const step = { source: offer, bill: billOf(taken), open: { paymentId: "p" } as Payment };
  equal((await giveBack(step)).bill.status, "CANCELLED");
  deepEqual(calls, ["POST /payments/p/cancel", "POST /my/transfers/t/cancel"]);
  serve({ ...ended, "POST /payments/p/cancel": [[409, { code: "PAYMENT_IN_PROGRESS" }]] });
  equal(await giveBack(step).catch(() => "refused"), "refused");
});

const bought = { membershipId: "m", status: "PENDING", amount: 70, currency: "KRW", payUntil: "2030-01-01T00:00:00Z" } as Membership;

test("a membership is its buyer's to pay until it is paid or its time is over", () => {
  const status = (change: Partial<Membership>) => membershipBill({ ...bought, ...change }).status;
  equal(status({}), "HELD");
  equal(status({ paymentId: "p" }), "PAYING");
  for (const paid of ["ACTIVE", "EXPIRED", "REFUNDING", "ENDED"] as const) equal(status({ status: paid, paymentId: "p" }), "CONFIRMED");
  equal(status({ status: "CANCELLED" }), "EXPIRED");
});

test("a membership that was paid too late is refunded, and nothing of it is given up", async () => {
  const membership = membershipSource("m");
  const late: Record<string, Answer[]> = {
    "GET /my/memberships/m": [[200, { ...bought, status: "CANCELLED" }]], "GET /payments/p": [[200, { paymentId: "p", status: "REFUNDED" }]],
  };
  serve(late);
  equal((await open(membership, signal)).bill.status, "EXPIRED");
  serve(late, "p");
  equal((await open(membership, signal)).bill.status, "REJECTED");
  const calls = serve({});
  equal((await giveBack({ source: membership, bill: membershipBill(bought) })).bill.status, "CANCELLED");
  deepEqual(calls, []);
});

test("the fragment names the payment of a return", () => {
  const id = "01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20";
  const at = (hash: string) => (Object.assign(globalThis, { location: { hash } }), arrived());
  deepEqual(at(`#bank/${id}?token=t`), { paymentId: id, path: "/payments/return/bank?token=t&looks" });
  for (const hash of ["", "#main", `#../${id}?x`, `#bank/${id}`, "#bank/p?token=t"]) equal(at(hash), undefined);
});
