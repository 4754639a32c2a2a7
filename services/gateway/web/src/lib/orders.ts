// Responses of the API about orders, for operators.

import type { Seat } from "./types";

export interface FoundOrder {
  reservationId: string;
  eventId: string;
  userId: string;
  origin: string;
  status: string;
  reason: string;
  seats: Seat[];
  section: string;
  quantity: number;
  released: number;
  amount: number;
  fee: number;
  currency: string;
  createdAt: string;
}

export interface OrderTicket {
  ticketId: string;
  place: number;
  userId: string;
  section: string;
  seatId?: string;
  status: string;
  paid: number;
  given: number;
  // Its payer disputes the charge at the bank.
  disputed: boolean;
  // Who has voided it, and why.
  void?: { at: string; userId: string; reason: string };
}

interface OrderScan {
  scanId: string;
  ticketId: string;
  result: string;
  deviceId: string;
  recordedAt: string;
}

export interface OrderRefund {
  refundId: string;
  cause: string;
  status: string;
  reason: string;
  amount: number;
  lastError: string;
  pendingReason: string;
}

export interface OrderPayment {
  paymentId: string;
  orderId: string;
  provider: string;
  status: string;
  declineCode: string;
  amount: number;
  captured: number;
  refunded: number;
  // What was given back at the provider, and of it what an operator has called goodwill and what
  // counts for nothing yet.
  byHand: number;
  goodwill: number;
  unassigned: number;
  currency: string;
  refunds: OrderRefund[];
  // While the payer disputes the charge at the bank.
  disputedAt?: string;
  // Until when the provider takes evidence.
  evidenceDueAt?: string;
  // Since the card's issuer takes the charge for fraud.
  warnedAt?: string;
  fraudType: string;
}

interface OrderStep {
  at: string;
  of: "reservation" | "ticket" | "payment" | "refund" | "scan";
  id: string;
  status: string;
  note: string;
}

export interface OrderDetail {
  order: FoundOrder;
  tickets: OrderTicket[];
  scans: OrderScan[];
  payments: OrderPayment[];
  timeline: OrderStep[];
  unreachable: string[];
}
