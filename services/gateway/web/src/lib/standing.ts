// The state of a sale as text. No imports of page data: the single-file page uses it too.

import type en from "../../../internal/web/lang/en.json";
import type { EventStatus } from "./types";

/** The sale has ended for good, unless an operator reopens it. */
export const isOver = (status: EventStatus | undefined): status is "CLOSED" | "CANCELLED" =>
  status === "CLOSED" || status === "CANCELLED";

/**
 * Why nothing can be bought now; `waits` is for a visitor with a place in a line. Empty when it
 * can.
 */
export function saleText(status: EventStatus | undefined, words: typeof en.sale, waits: boolean): string {
  if (!status || status === "ON_SALE") return "";
  const place = { SCHEDULED: words.kept, PRESALE: words.kept, SOLD_OUT: words.stay, PAUSED: "", CLOSED: "", CANCELLED: "" };
  // A newer server may send a state that this page does not know.
  const text = words[status] ?? "";
  return waits ? `${text} ${place[status] ?? ""}`.trim() : text;
}
