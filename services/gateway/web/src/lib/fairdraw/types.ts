/** The answer of GET /draws/{eventId}; empty members mean that the draw has not come so far. */
export interface DrawDocument {
  eventId: string;
  phase: string;
  /** The canonical JSON of the terms, verbatim, and its SHA-256 in hex. */
  commitment: string;
  commitmentHash: string;
  statement?: SignedStatement | null;
  excluded?: Exclusion[] | null;
  beacon?: Round | null;
  seed?: string;
  winners?: string[] | null;
  orderHash?: string;
  voidedAt?: number;
  /** Why it was cancelled after its round, by the operator's word. */
  voidReason?: string;
  /** Added to a copy: when it was saved, in ms. */
  savedAt?: number;
}

/** A copy of a document that this browser has saved. */
export interface DrawCopy extends DrawDocument {
  /** Its time may be wrong: what it does not have may have been there. */
  unsure?: boolean;
}

export interface SignedStatement {
  statement: string;
  signature: string;
}

export interface Exclusion {
  requestId: string;
  reason: string;
}

/** A round of the beacon. */
export interface Round {
  round: number;
  randomness: string;
  signature: string;
}

/** The answer of GET /draws/{eventId}/proof/{requestId}. */
export interface InclusionProof {
  /** From 0. */
  index: number;
  count: number;
  /** Hashes in hex, from the leaf up. */
  path: string[];
}

export interface Options {
  /** The algorithm that the document must have. */
  algorithm?: string;
  receipts?: string[];
  /** Earlier copies of the document. */
  earlier?: DrawCopy[];
  /** When the document was read, in ms; absent: whether the result is overdue is not checked. */
  now?: number;
  /** Is told how much is done, from 0 to 1. */
  progress?: (done: number) => void;
}

export interface Report {
  terms: Terms;
  statement?: Statement;
  /** When the earliest copy with this statement was saved, before the round; 0 when its time is a claim. */
  rootSeenAt: number;
  valueKnown: boolean;
  complete: boolean;
  seedWithheld: boolean;
  winners: number;
  receipts: ReceiptReport[];
}

export type Outcome = "PENDING" | "ENTERED" | "WON" | "LOST" | "PLACED" | "EXCLUDED" | "LATE";

export interface ReceiptReport {
  requestId: string;
  /** When the request was stamped, in ms. */
  at: number;
  outcome: Outcome;
  /** From 1; 0 without a result. */
  rank: number;
  reason: string;
}

/** The terms of a commitment. Times are in ms. */
export interface Terms {
  algorithm: string;
  announcedAt: number;
  beacon?: Beacon;
  cutoffAt: number;
  eventId: string;
  round: number;
  /** The keys of receipts and of the statement. */
  receiptKey: string;
  seedHash: string;
  seedKid: string;
  statementKey: string;
  winners: number;
}

export interface Beacon {
  beaconId: string;
  chainHash: string;
  delaySeconds: number;
  /** The time of round 1, in seconds. */
  genesis: number;
  groupHash: string;
  periodSeconds: number;
  publicKey: string;
  scheme: string;
}

export interface Statement {
  at: number;
  commitment: string;
  count: number;
  excludedCount: number;
  excludedRoot: string;
  missedRounds: number;
  root: string;
  round: number;
}
