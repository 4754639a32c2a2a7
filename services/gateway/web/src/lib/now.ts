// The time of the server. Every duration that the server decides about (a hold, a turn, the opening
// of a sale) is measured by its clock: that of the visitor may be minutes off.

// Bounds of the difference (server − browser, in ms): the Date of a response is truncated to
// seconds, and was set between the sending of the request and the arrival of the response.
let low = -Infinity;
let high = Infinity;

/** Narrows the bounds by the response to a request sent at `sent`. */
export function observeServerTime(answer: Response, sent: number): void {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  const from = date - Date.now();
  const to = date + 1000 - sent;
  low = Math.max(low, from);
  high = Math.min(high, to);
  // The clock of the browser was changed in between.
  if (low > high) [low, high] = [from, to];
}

/**
 * The time of the server in epoch milliseconds; that of the browser while it is within the bounds.
 */
export const serverNow = (): number => Date.now() + Math.min(high, Math.max(low, 0));
