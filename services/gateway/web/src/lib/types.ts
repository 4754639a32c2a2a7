// Responses of the API, as documented by the gateway.

export type SectionSeating = "ASSIGNED" | "GENERAL";

// Of an event: MIXED has sections of both kinds.
export type Seating = SectionSeating | "MIXED";

export type EventStatus = "SCHEDULED" | "PRESALE" | "ON_SALE" | "PAUSED" | "SOLD_OUT" | "CLOSED" | "CANCELLED";

export interface Section {
  section: string;
  // Minor units.
  price: number;
  capacity: number;
  free: number;
  // Paid on top of the price.
  fee: number;
  seating: SectionSeating;
}

/** A time before the sale in which only those who have one of the ways to an entitlement may buy. */
export interface Presale {
  opensAt: string;
  // At most this many per person while it lasts; absent: as in the sale.
  maxPerUser?: number;
  any: { planId?: string; codeList?: string; list?: string; claim?: string }[];
}

/** What an event's presale and limits allow the caller. */
export interface MyEvent {
  entitled: boolean;
  by?: "MEMBERSHIP" | "CODE" | "LIST" | "CLAIM";
  left: number;
}

export interface SaleEvent {
  eventId: string;
  title: string;
  artist: string;
  venue: string;
  startsAt: string;
  salesOpenAt: string;
  salesCloseAt: string;
  // From when users with an entitlement may buy, before the sale opens to all.
  presale?: Presale;
  seating: Seating;
  sections: Section[];
  currency: string;
  maxPerUser: number;
  status: EventStatus;
  // IANA time zone of the venue.
  timeZone?: string;
  waitingRoom?: { active: boolean };
  // The start before the event was postponed.
  postponedFrom?: string;
  // Until when all that was paid comes back for a ticket given back that was bought before the event was postponed.
  fullRefundUntil?: string;
  // Of a cancelled event: when its refunds begin, or have begun. Until then it may take place again.
  refundsAt?: string;
  doorsAt?: string;
  closesAt: string;
  // Until when users may give tickets back; absent: never.
  refundUntil?: string;
  // The share of the price that is kept of a ticket given back before each time, in percent; after the last one its share stays.
  cancellationFees?: { steps: { until: string; percent: number }[] };
  // Whether holders may pass tickets on: not, as gifts, or also for money.
  transferable: "NONE" | "FREE" | "PRICED";
}

export interface List<T> {
  items: T[];
  nextCursor?: string;
}

export interface Place {
  status: "queued" | "active" | "none";
  position: number;
  peopleAhead: number;
  peopleBehind: number;
  // Seconds; absent while it is not known.
  estimatedWait?: number;
  nextPoll: number;
  currentUsers: number;
  threshold: number;
  eventTitle?: string;
  artistName?: string;
  entryToken?: string;
  // End of the slot, epoch milliseconds.
  expiresAt?: number;
  ticket?: string;
  saleStatus?: EventStatus;
  // True while an operator has paused the line.
  paused?: boolean;
  // Before the sale opens to all: whether the user may enter in the presale, and when (epoch ms) it opens.
  entitled?: boolean;
  generalOpensAt?: number;
}

export interface SeatMapRow {
  row: string;
  // Seats are numbered from 1 and stand side by side from (x, y).
  seats: number;
  x: number;
  y: number;
}

export interface SeatMap {
  eventId: string;
  seating: Seating;
  sections: { section: string; rows: SeatMapRow[] }[];
  seats: number;
}

export interface Availability {
  eventId: string;
  // Base64; bit i, most significant first, is 1 when the seat of index i is free.
  bitmap: string;
  sections: Section[];
}

// A message of the stream of changes; seats are indexes of the bitmap.
export interface SeatChanges {
  seq: number;
  taken: number[];
  freed: number[];
  sections: { section: string; free: number }[];
}

// A seat of the map. The event has the prices of its sections.
export interface MapSeat {
  seatId: string;
  section: string;
  row: string;
  number: number;
}

export interface Seat extends MapSeat {
  price: number;
}

export type ReservationStatus = "HELD" | "PAYING" | "CONFIRMED" | "CANCELLED" | "EXPIRED" | "REJECTED" | "REFUNDED" | "VOIDED";

export interface Reservation {
  reservationId: string;
  eventId: string;
  seats: Seat[];
  // General admission.
  section: string;
  quantity: number;
  amount: number;
  currency: string;
  status: ReservationStatus;
  expiresAt: string;
  createdAt: string;
  // The payment under way, while PAYING.
  paymentId?: string;
}

export interface Ticket {
  ticketId: string;
  code: string;
  eventId: string;
  seat?: Seat;
  section: string;
  status: "VALID" | "USED" | "TRANSFERRING" | "TRANSFERRED" | "REFUNDING" | "REFUNDED" | "VOIDED";
  reservationId: string;
  issuedAt: string;
  // Absent for a gift.
  paymentId?: string;
  price: number;
  fee: number;
  currency: string;
  refundable: Refundable;
  transferable: Transferable;
}

export interface Refundable {
  // Absent: never.
  until?: string;
  amount: number;
  // Until when the amount is all that was paid, since the event was postponed after it was bought; then less comes back, until `until`.
  fullUntil?: string;
  // Why the ticket cannot be given back; absent: it can.
  reason?: "USED" | "TRANSFERRING" | "TRANSFERRED" | "REFUNDING" | "REFUNDED" | "VOIDED" | "TOO_LATE" | "NO_REFUNDS" | "EVENT_CANCELLED" | "NOT_PAID" | "ONLY_WHOLE_ORDER";
}

export interface Transferable {
  // Minor units; 0: as a gift only.
  maxPrice: number;
  // Why the ticket cannot be passed on; absent: it can.
  reason?: string;
  // Its open offer.
  transferId?: string;
}

/** The offer of a ticket to another user. */
export interface Plan {
  planId: string;
  name: string;
  price: number;
  currency: string;
  months: number;
}

export interface Membership {
  membershipId: string;
  name: string;
  months: number;
  amount: number;
  currency: string;
  status: "PENDING" | "ACTIVE" | "EXPIRED" | "REFUNDING" | "ENDED" | "CANCELLED";
  // PENDING: the end of the time to pay, and the payment under way.
  payUntil?: string;
  paymentId?: string;
  // Of a paid one.
  startsAt?: string;
  endsAt?: string;
  createdAt: string;
}

export interface Transfer {
  transferId: string;
  eventId: string;
  // Absent for general admission.
  seat?: Seat;
  section: string;
  // What the ticket costs in the shop, and what it costs here; 0: a gift.
  faceValue: number;
  price: number;
  currency: string;
  status: "OPEN" | "AWAITING_PAYMENT" | "COMPLETED" | "CANCELLED" | "EXPIRED";
  // Why it has ended without a buyer.
  reason?: "SELLER" | "USED" | "REFUNDED" | "VOIDED" | "EVENT_CANCELLED" | "POSTPONED" | "DEADLINE" | "UNPAID";
  // The visitor's part; empty while somebody else may accept it.
  role: "SELLER" | "BUYER" | "";
  // Until when it can be accepted.
  deadline: string;
  // To its buyer, while AWAITING_PAYMENT: the end of the time to pay, and the payment under way.
  expiresAt?: string;
  paymentId?: string;
  // To its seller: the only user who may accept it.
  toUserId?: string;
  // Only in the answer to whoever has made it: the path with the claim of its link.
  claimUrl?: string;
}

export interface Refund {
  refundId: string;
  cause: "USER" | "OPERATOR" | "EVENT_CANCELLED" | "COMPENSATION" | "TRANSFER" | "BY_HAND" | "BY_HAND_FAILED";
  status: "REQUESTED" | "PENDING" | "DONE" | "REFUSED" | "HELD" | "FAILED";
  // Why it is REFUSED: it would have given back only `amount`, less than was shown.
  reason?: "AMOUNT_CHANGED";
  amount: number;
  items: { ticketId: string; amount: number }[];
  createdAt: string;
}

/** A check-in. */
export interface CheckedIn {
  scanId: string;
  ticketId: string;
  section: string;
  // Absent for general admission.
  seat?: Seat;
  at: string;
  // The name on an order that was given away.
  name?: string;
  // Its payer disputes the charge at the bank.
  disputed: boolean;
}

export interface DoorCounts {
  sold: number;
  checkedIn: number;
  conflicts: number;
}

export interface Prepared {
  paymentId: string;
  orderId: string;
  amount: number;
  currency: string;
  provider: string;
  expiresAt: string;
  status: PaymentStatus;
  page?: ProviderPage;
}

/** Where the buyer pays: the address of a provider's page, or what a form of ours needs. */
interface ProviderPage {
  url: string;
  params: Partial<Record<string, string>>;
}

type PaymentStatus = "PREPARED" | "OPEN" | "PENDING" | "CONFIRMED" | "DECLINED" | "EXPIRED" | "REFUNDED";

export interface Confirmed {
  status: "CONFIRMED" | "DECLINED" | "PENDING";
  declineCode?: string;
  paymentId: string;
}

export interface Payment {
  paymentId: string;
  status: PaymentStatus;
  // While OPEN.
  page?: ProviderPage;
  provider: string;
  expiresAt: string;
  declineCode?: string;
  eventId: string;
  amount: number;
  currency: string;
  refundedAmount: number;
  createdAt: string;
  refunds: Refund[];
  // While PENDING: about how long it takes until the provider is asked.
  waitSeconds: number;
  receiptUrl?: string;
}

/** What somebody who comes back from a provider's page may know without a session. */
export interface Returned {
  status: PaymentStatus;
  declineCode?: string;
}

export type RewardStatus = "PENDING" | "PROCESSING" | "SUCCESS" | "FAILED" | "CANCELLED";

export interface Reward {
  allocationId: string;
  kind: "POINT" | "COUPON";
  // Points, or the number of the coupon.
  value: number;
  reason: "DAILY" | "MILESTONE" | "DRAW" | "WINNER";
  status: RewardStatus;
  createdAt: string;
  eventId: string;
}

export interface Milestone {
  // Days in a row.
  day: number;
  kind: Reward["kind"];
  value: number;
  // Paid at each multiple of the day.
  every: boolean;
}

export interface Prize {
  name: string;
  // NONE is a blank.
  kind: Reward["kind"] | "NONE";
  value: number;
  // What is left; absent: without limit.
  stock?: number;
}

export type CampaignStatus = "SCHEDULED" | "OPEN" | "CLOSED" | "CANCELLED";

export interface Campaign {
  eventId: string;
  title: string;
  kind: "ATTENDANCE" | "RANDOM" | "REQUEST_WINNERS";
  opensAt: string;
  closesAt: string;
  status: CampaignStatus;
  // The reward of each day, or of each winner.
  daily?: { kind: Reward["kind"]; value: number };
  milestones: Milestone[];
  prizes: Prize[];
  drawsPerMember: number;
  // What draws are counted by: DAY is a day in Korea.
  period: "CAMPAIGN" | "DAY";
}

/** An attendance, a draw or a win. */
export interface Entry {
  entryId: string;
  day?: string;
  streak?: number;
  // Absent from a draw when all prizes were gone.
  prize?: Prize;
  rewards: Reward[];
  repeated: boolean;
}

/** What the visitor has done in a campaign. */
export interface Part {
  days: string[];
  streak: number;
  milestones: number[];
  drawsLeft: number;
  today: string;
  // Today's attendance, the draws of the period, or the wins; newest first.
  entries: Entry[];
}

export type PromotionStatus = "Scheduled" | "Open" | "Closed" | "Announced" | "Void";

export interface Promotion {
  eventId: string;
  title: string;
  eventType: "FIRST_COME" | "LOTTERY";
  capacityTotal: number;
  opensAt: string;
  closesAt: string;
  // Lottery: requests before it take part; when the result is published.
  lotteryCutoffAt?: string;
  announcedAt?: string;
  status: PromotionStatus;
  // Each visitor applies at an own time, less than so many ms after opensAt.
  spreadMs?: number;
  // Takes no requests at present, although it is open.
  paused?: boolean;
  // First come: the places left, rounded above 100; at 0 it is sold out for good.
  remaining?: number;
}

/** A request to a promotion. Times are epoch milliseconds. */
export interface EventRequest {
  requestId: string;
  eventId: string;
  eventType: Promotion["eventType"];
  status: "RECEIVED" | "QUEUED" | "PROCESSING" | "SUCCEEDED" | "REJECTED" | "FAILED_FINAL";
  uiResult: "PENDING" | "SUCCESS" | "REJECTED" | "FAILED";
  // Lottery.
  uiPhase?: "COLLECTING" | "DRAWING" | "ANNOUNCED";
  resultCode?: string;
  requestedAt: number;
  // First come: the place in the order of the queue, in digits with leading zeros.
  queueSeq?: string;
  // First come: the place of a winner, from 1.
  place?: number;
  errorCode?: string;
  receipt?: string;
}

/** The answer to an application. */
export interface Applied extends Pick<EventRequest, "requestId" | "status" | "uiResult" | "uiPhase" | "receipt"> {
  // An earlier application made the request.
  duplicate: boolean;
}

export interface StatusChange {
  fromStatus?: string;
  toStatus: EventRequest["status"];
  occurredAt: number;
}
