// The server's time. Every span that the server decides (a hold, a turn, the opening of a sale) is counted by its clock:
// a visitor's own may be minutes off.

// The difference (server − browser, in ms) lies between these: an answer's Date is cut to the second, and it was written
// between the sending of the request and the arrival of the answer.
let low = -Infinity;
let high = Infinity;

/** Learns from an answer to a request that was sent at `sent`. */
export function hear(answer: Response, sent: number): void {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  const from = date - Date.now();
  const to = date + 1000 - sent;
  low = Math.max(low, from);
  high = Math.min(high, to);
  // The browser's clock was set meanwhile.
  if (low > high) [low, high] = [from, to];
}

/** The server's time in epoch milliseconds; the browser's while nothing speaks against it. */
export const serverNow = (): number => Date.now() + Math.min(high, Math.max(low, 0));
