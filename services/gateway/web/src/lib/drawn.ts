// What a draw publishes, read for display only: nothing here is verified.

import type { DrawDocument } from "./fairdraw";
import { timeOf } from "./fairdraw/rounds";
import type { Statement, Terms } from "./fairdraw/types";
import { spreadOver } from "./spread";

function parse<T>(text: string | undefined): T | undefined {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return value && typeof value === "object" ? (value as T) : undefined;
  } catch {
    return undefined; // the verification names it
  }
}

export const termsOf = (draw: DrawDocument): Partial<Terms> => parse<Partial<Terms>>(draw.commitment) ?? {};

export const statementOf = (draw: DrawDocument): Partial<Statement> | undefined => parse<Partial<Statement>>(draw.statement?.statement);

// How many visitors may ask for a result in a second.
const asksPerSecond = 10_000;

/** Seconds over which those are spread who wait for the result of a draw. */
export const drawSpread = (draw: DrawDocument | undefined): number => spreadOver((draw && statementOf(draw)?.count) ?? 0, asksPerSecond);

/** The round that decides and its time in ms; undefined without a beacon. */
export function decidingRound(draw: DrawDocument): { round: number; at: number } | undefined {
  const terms = termsOf(draw);
  const round = statementOf(draw)?.round ?? terms.round;
  if (!terms.beacon || !round) return undefined;
  const at = timeOf(terms.beacon, round);
  return Number.isFinite(at) ? { round, at } : undefined;
}

/** A time as the formats take it; empty if it is not one. */
export function isoTime(ms: number | undefined): string {
  const date = new Date(ms ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}
