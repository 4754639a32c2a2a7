// The calls of a campaign. Each can be repeated safely.

import { call, once, Problem } from "../lib/api";
import { hasSession } from "../lib/frame";
import { serverNow } from "../lib/now";
import { isUnpaid, readCampaign } from "../lib/reward";
import { unknownCrowd, untilTurn } from "../lib/spread";
import { readStored, writeStored } from "../lib/store";
import type { Campaign, Entry, Part } from "../lib/types";
import { uuid } from "../lib/uuid";
import { untilNextDay } from "./calendar";

export interface State {
  campaign: Campaign;
  // Undefined without a session.
  part: Part | undefined;
}

const path = (eventId: string): string => `/rewards/${encodeURIComponent(eventId)}`;

export async function readState(eventId: string, signal: AbortSignal): Promise<State> {
  const [campaign, part] = await Promise.all([readCampaign(eventId, signal), hasSession() ? readPart(eventId, signal) : undefined]);
  return { campaign, part };
}

/** Without a session the campaign is still shown, with a link to sign in. */
async function readPart(eventId: string, signal: AbortSignal): Promise<Part | undefined> {
  try {
    return await call<Part>("GET", `${path(eventId)}/me`, { signal });
  } catch (failure) {
    if (failure instanceof Problem && failure.status === 401) return undefined;
    throw failure;
  }
}

/**
 * Seconds until the state is read again: at the opening, at the end, and at midnight in Korea, each
 * delayed at random since everybody waits for it; and while payments are under way, more and more seldom.
 */
export function untilChange({ campaign, part }: State): number | undefined {
  const now = serverNow();
  const until = (time: number): number => untilTurn(time - now, unknownCrowd);
  const waits: number[] = [];
  if (campaign.status === "SCHEDULED") waits.push(until(Date.parse(campaign.opensAt)));
  if (campaign.status === "OPEN") {
    waits.push(until(Date.parse(campaign.closesAt)), until(now + untilNextDay(now)));
    if (campaign.kind === "RANDOM") waits.push(30); // the stock of the prizes
  }
  const unpaid = rewardsOf(part).filter((reward) => isUnpaid(reward.status));
  if (unpaid.length > 0) {
    const youngest = Math.max(...unpaid.map((reward) => Date.parse(reward.createdAt)));
    waits.push(Math.min(60, Math.max(1, (now - youngest) / 5000)));
  }
  return waits.length > 0 ? Math.min(300, ...waits) : undefined;
}

export const rewardsOf = (part: Part | undefined) => part?.entries.flatMap((entry) => entry.rewards) ?? [];

export const attend = (eventId: string): Promise<Entry> => once<Entry>("POST", `${path(eventId)}/attendance`, { body: {} });

// The key of a draw whose result is not known. It outlives a reload: the draw may have been made.
let drawKey: string | undefined;

const storedKey = (eventId: string): string => `urr-draw-${eventId}`;

/** Draws once, even if the call is repeated after its response was lost. */
export async function draw(eventId: string): Promise<Entry> {
  drawKey ||= readStored(sessionStorage, storedKey(eventId)) || uuid();
  writeStored(sessionStorage, storedKey(eventId), drawKey);
  try {
    const entry = await once<Entry>("POST", `${path(eventId)}/draw`, { body: {}, headers: { "Idempotency-Key": drawKey } });
    endDraw(eventId);
    return entry;
  } catch (failure) {
    if (!isLost(failure)) endDraw(eventId);
    throw failure;
  }
}

/** Whether the call may have taken effect although it failed. */
export const isLost = (failure: unknown): boolean =>
  !(failure instanceof Problem) || failure.temporary || failure.code === "IDEMPOTENCY_IN_PROGRESS";

function endDraw(eventId: string): void {
  drawKey = undefined;
  writeStored(sessionStorage, storedKey(eventId), "");
}
