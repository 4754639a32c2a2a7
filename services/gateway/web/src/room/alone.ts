// Calls that one tab of a browser makes at a time.

// How long a tab waits for the calls of others: one that the browser has suspended may not end its own.
const waitMs = 10_000;

/**
 * Makes a call that may give the visitor an id, once those of other tabs have ended. Two at a time, of a
 * visitor without an id or with one that has expired, would get two ids; the browser keeps one of
 * them, and the positions of the other would be lost. Where the browser has no locks, as on pages
 * without TLS, the call is made at once.
 */
export async function alone<T>(call: () => Promise<T>): Promise<T> {
  let made: Promise<T> | undefined;
  const make = (): Promise<T> => (made = call());
  try {
    await navigator.locks.request("urr-visitor", { signal: AbortSignal.timeout(waitMs) }, make);
  } catch {
    // A failure of the call itself is passed on below.
  }
  return made ?? call();
}
