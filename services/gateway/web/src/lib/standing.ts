// Where a sale stands, in words. No imports of the page's data: the one-file page uses it too.

import type en from "../../../internal/web/lang/en.json";
import type { EventStatus } from "./types";

/** The sale will never (again) let anybody in. */
export const isOver = (status: EventStatus | undefined): status is "CLOSED" | "CANCELLED" =>
  status === "CLOSED" || status === "CANCELLED";

/** Why nothing can be bought right now; `waits` is for somebody who has a place in a line. Empty while it can. */
export function saleText(status: EventStatus | undefined, words: typeof en.sale, waits: boolean): string {
  if (!status || status === "ON_SALE") return "";
  const place = { SCHEDULED: words.kept, SOLD_OUT: words.stay, PAUSED: "", CLOSED: "", CANCELLED: "" };
  // A newer server may say what this page does not know.
  const text = words[status] ?? "";
  return waits ? `${text} ${place[status] ?? ""}`.trim() : text;
}
