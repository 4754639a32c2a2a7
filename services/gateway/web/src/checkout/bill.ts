// What is paid: a reservation, the ticket of another user whose offer was accepted, or a membership.

import { call, once, Problem } from "../lib/api";
import type { Membership, Payment, Reservation, ReservationStatus, Transfer } from "../lib/types";

/** What the payment of something has to know about it. */
export interface Bill {
  status: ReservationStatus;
  amount: number;
  currency: string;
  // The end of the time to pay.
  expiresAt: string;
  // The payment under way, while PAYING.
  paymentId?: string;
}

/** A bill, and, while it is not paid, one of its payments. */
export interface Read<B extends Bill> {
  bill: B;
  payment?: Payment;
}

/** Where a bill comes from. */
export interface Source<B extends Bill> {
  paymentType: "reservation" | "transfer" | "membership";
  // Of the reservation, the transfer or the membership.
  id: string;
  read(signal?: AbortSignal): Promise<B>;
  // Reads the payment too: the one under way, else the given one.
  readWith(paymentId: string | undefined, signal?: AbortSignal): Promise<Read<B>>;
  // Gives up what is not paid, also while a payment of it is open; absent where there is nothing to give up.
  release?: (open: Payment | undefined) => Promise<void>;
}

const within = (signal?: AbortSignal) => (signal ? { signal } : {});

export const endPayment = (paymentId: string): Promise<Payment> => once<Payment>("POST", `/payments/${paymentId}/cancel`, { body: {} });

/** A reservation is read with its payment in one call, if the payment is known. */
export function reservationSource(id: string): Source<Reservation> {
  const path = `/my/reservations/${id}`;
  const read = (signal?: AbortSignal) => call<Reservation>("GET", path, within(signal));
  const readBoth = async (paymentId: string, signal?: AbortSignal): Promise<Read<Reservation>> => {
    const { reservation, ...rest } = await call<{ reservation: Reservation; payment?: Payment }>("GET", `${path}/payments/${paymentId}`, within(signal));
    return { bill: reservation, ...rest };
  };
  const readWith = async (paymentId: string | undefined, signal?: AbortSignal): Promise<Read<Reservation>> => {
    const found = paymentId ? await readBoth(paymentId, signal) : { bill: await read(signal) };
    const underWay = found.bill.paymentId;
    return underWay && underWay !== found.payment?.paymentId && underWay !== paymentId ? readWith(underWay, signal) : found;
  };
  const free = () => call<void>("DELETE", path);
  const release = (open: Payment | undefined) =>
    free().catch(async (cause: unknown) => {
      if (!open || !(cause instanceof Problem) || cause.code !== "RESERVATION_NOT_HELD") throw cause;
      // Its charge was tried, but not sent: it has to be ended first.
      await endPayment(open.paymentId);
      await free();
    });
  return { paymentType: "reservation", id, read, readWith, release };
}

/** Adds to a bill the payment under way, else the known one; of a bill that is over it says whether it came too late. */
async function withPayment<B extends Bill>(bill: B, known: string | undefined, signal?: AbortSignal): Promise<Read<B>> {
  const paymentId = bill.paymentId ?? known;
  if (!paymentId || bill.status === "CONFIRMED") return { bill };
  const payment = await call<Payment>("GET", `/payments/${paymentId}`, within(signal));
  if (bill.status !== "EXPIRED") return { bill, payment };
  const late = payment.status === "CONFIRMED" || payment.status === "REFUNDED";
  return { bill: late ? { ...bill, status: "REJECTED" } : bill };
}

/** The bill of the buyer who has accepted an offer. */
export interface TransferBill extends Bill {
  transfer: Transfer;
}

/** Names an offer: by the claim of its link, or by its id. */
export type OfferName = { claim: string } | { transferId: string };

export const lookAt = (offer: OfferName, signal?: AbortSignal): Promise<Transfer> =>
  call<Transfer>("POST", "/transfers/look", { body: offer, ...within(signal) });

/** What an offer is to its buyer. It is over once it is somebody else's, or open again. */
export function billOf(transfer: Transfer): TransferBill {
  const { price: amount, currency, expiresAt = transfer.deadline, paymentId } = transfer;
  const bill = { transfer, amount, currency, expiresAt };
  if (transfer.role !== "BUYER") return { ...bill, status: "EXPIRED" };
  if (transfer.status === "COMPLETED") return { ...bill, status: "CONFIRMED" };
  if (transfer.status !== "AWAITING_PAYMENT") return { ...bill, status: "EXPIRED" };
  return paymentId ? { ...bill, status: "PAYING", paymentId } : { ...bill, status: "HELD" };
}

/** The offer that the visitor has accepted. */
export function transferSource(accepted: Transfer, name: OfferName): Source<TransferBill> {
  let last = accepted;
  const read = async (signal?: AbortSignal): Promise<TransferBill> => {
    try {
      last = await lookAt(name, signal);
    } catch (cause) {
      if (!(cause instanceof Problem) || cause.status !== 404) throw cause;
      last = { ...last, role: "" }; // open again, for whoever has the link
    }
    return billOf(last);
  };
  const readWith = async (known: string | undefined, signal?: AbortSignal) => withPayment(await read(signal), known, signal);
  const release = async (open: Payment | undefined) => {
    if (open) await endPayment(open.paymentId);
    await call<Transfer>("POST", `/my/transfers/${accepted.transferId}/cancel`, { body: {} });
  };
  return { paymentType: "transfer", id: accepted.transferId, read, readWith, release };
}

/** The bill of a membership. */
export interface MembershipBill extends Bill {
  membership: Membership;
}

/** What a membership is to its buyer. */
export function membershipBill(membership: Membership): MembershipBill {
  const { status, amount, currency, payUntil: expiresAt = membership.createdAt, paymentId } = membership;
  const bill = { membership, amount, currency, expiresAt };
  if (status === "CANCELLED") return { ...bill, status: "EXPIRED" };
  if (status !== "PENDING") return { ...bill, status: "CONFIRMED" };
  return paymentId ? { ...bill, status: "PAYING", paymentId } : { ...bill, status: "HELD" };
}

/** The visitor's membership. */
export function membershipSource(id: string): Source<MembershipBill> {
  const read = async (signal?: AbortSignal) => membershipBill(await call<Membership>("GET", `/my/memberships/${id}`, within(signal)));
  const readWith = async (known: string | undefined, signal?: AbortSignal) => withPayment(await read(signal), known, signal);
  return { paymentType: "membership", id, read, readWith };
}
