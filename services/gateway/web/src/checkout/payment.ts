// The calls of a payment, each safe to repeat: a key that the browser keeps names the attempt.

import { backoff, call, follow, Problem } from "../lib/api";
import { clock } from "../lib/line";
import { recall, remember } from "../lib/store";
import type { Confirmed, Payment, Prepared, Reservation } from "../lib/types";

/** Where the checkout stands. */
export interface Step {
  reservation: Reservation;
  paymentId?: string | undefined;
  // The provider said that the money was taken.
  charged?: boolean;
  // Why the last attempt was declined; empty codes are shown as such.
  declined?: string | undefined;
  failure?: unknown;
  // Counts the attempts, so that each is prepared anew.
  attempt?: number;
}

/** What the sandbox provider is told to answer; it reads the payment key up to its first dash. */
export type SandboxAnswer = "ok" | "decline" | "late";

const prepareKey = (reservationId: string) => `urr-prepare-${reservationId}`;

/** Opens the payment, or finds the open one again: a reloaded page sends the same key. */
export function prepare(reservationId: string, signal: AbortSignal): Promise<Prepared> {
  const key = recall(sessionStorage, prepareKey(reservationId)) || crypto.randomUUID();
  remember(sessionStorage, prepareKey(reservationId), key);
  return call<Prepared>("POST", "/payments/prepare", {
    body: { paymentType: "reservation", referenceId: reservationId },
    headers: { "Idempotency-Key": key },
    signal,
  });
}

/** The payment prepared under the kept key is over; the next one needs another. */
function endAttempt(reservationId: string): void {
  remember(sessionStorage, prepareKey(reservationId), "");
}

const readReservation = (id: string, signal?: AbortSignal) =>
  call<Reservation>("GET", `/my/reservations/${id}`, signal ? { signal } : {});

/** Charges once, however often the call has to be repeated. */
async function confirmOnce(prepared: Prepared, answer: SandboxAnswer): Promise<Confirmed> {
  const body = { orderId: prepared.orderId, paymentKey: `${answer}-${crypto.randomUUID()}`, amount: prepared.amount };
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  for (let failures = 1; ; failures++) {
    try {
      return await call<Confirmed>("POST", "/payments/confirm", { body, headers });
    } catch (failure) {
      if (!(failure instanceof Problem) || failures === 5) throw failure;
      // The first call may still be running when its answer was lost on the way.
      if (!failure.temporary && failure.code !== "IDEMPOTENCY_IN_PROGRESS") throw failure;
      await clock.wait(backoff(failures, failure.retryAfter));
    }
  }
}

/** Pays, and says where that leads; never throws. */
export async function pay(step: Step, prepared: Prepared, answer: SandboxAnswer): Promise<Step> {
  const { reservation } = step;
  const attempt = (step.attempt ?? 0) + 1;
  try {
    const confirmed = await confirmOnce(prepared, answer);
    const next: Step = { reservation, paymentId: prepared.paymentId, attempt };
    if (confirmed.status === "DECLINED") return await declined(next, confirmed.declineCode);
    // From here on the server's word counts; PAYING makes the page ask for it.
    next.reservation = { ...reservation, status: "PAYING" };
    next.charged = confirmed.status === "CONFIRMED";
    return next;
  } catch (failure) {
    follow(failure);
    endAttempt(reservation.reservationId);
    const now = await readReservation(reservation.reservationId).catch(() => reservation);
    return { reservation: now, failure, attempt, paymentId: prepared.paymentId };
  }
}

async function declined(step: Step, code: string | undefined): Promise<Step> {
  endAttempt(step.reservation.reservationId);
  const now = await readReservation(step.reservation.reservationId).catch(() => step.reservation);
  return { reservation: now, declined: code || "DECLINED", attempt: (step.attempt ?? 0) + 1 };
}

/** Asks until the reservation is neither being paid nor held for a payment that is still open. */
export async function settle(step: Step, show: (step: Step) => void, signal: AbortSignal): Promise<void> {
  for (let polls = 0; !signal.aborted; polls++) {
    await clock.wait(polls < 5 ? 0.5 : polls < 30 ? 1 : 3, signal);
    try {
      const next = await look(step, signal);
      if (next) return show(next);
    } catch (failure) {
      if (signal.aborted || follow(failure)) return;
      await clock.wait(backoff(3), signal);
    }
  }
}

/** The next step, or nothing while the payment is under way. */
async function look(step: Step, signal: AbortSignal): Promise<Step | undefined> {
  const reservation = await readReservation(step.reservation.reservationId, signal);
  if (reservation.status === "PAYING") return undefined;
  if (reservation.status !== "HELD") return { ...step, reservation };
  if (!step.paymentId) return { ...step, reservation };
  // Held again: the payment was declined, or the reservation does not know of it yet.
  const payment = await call<Payment>("GET", `/payments/${step.paymentId}`, { signal });
  if (payment.status === "DECLINED") return declined({ ...step, reservation }, payment.declineCode);
  return payment.status === "EXPIRED" ? { ...step, reservation } : undefined;
}
