// Which draw the page is about: that of a promotion, or with ?of=lobby the shuffle of a waiting room.

import type { DrawDocument } from "./fairdraw";

export const ofLobby = new URLSearchParams(location.search).get("of") === "lobby";

export const algorithm = ofLobby ? "urr/shuffle/1" : "urr/draw/1";

/** The path of the document; those of the entries and of proofs are below it. */
export function drawPath(eventId: string): string {
  const id = encodeURIComponent(eventId);
  return ofLobby ? `/vwr-api/vwr/shuffle/${id}` : `/draws/${id}`;
}

/** The name under which copies are kept. A waiting room has another shuffle each time it opens. */
export const copiesName = (draw: DrawDocument): string =>
  ofLobby ? `${draw.eventId}/lobby/${draw.commitmentHash.slice(0, 16)}` : draw.eventId;

/** The name under which receipts are kept. */
export const receiptsName = (eventId: string): string => (ofLobby ? `${eventId}/lobby` : eventId);
