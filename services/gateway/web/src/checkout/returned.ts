// Where a provider's page sent the buyer back: the fragment of the address names the payment and
// proves it, also to a browser without a session.

import { call, Problem } from "../lib/api";
import type { Returned } from "../lib/types";

interface Arrival {
  paymentId: string;
  path: string;
}

/** The payment that the address names: #{provider}/{paymentId}?{parameters}. */
export function arrived(): Arrival | undefined {
  const [, provider, paymentId, query] = /^#([a-z0-9-]+)\/([0-9a-f-]{36})\?(.*)$/.exec(location.hash) ?? [];
  return provider && paymentId ? { paymentId, path: `/payments/return/${provider}?${query}&looks` } : undefined;
}

/** The state of the payment, as far as whoever comes back from its page may know it. */
const readReturned = (back: Arrival, signal: AbortSignal): Promise<Returned> => call<Returned>("GET", back.path, { signal });

/** Whether the outcome is known. */
export const settled = ({ status }: Returned): boolean => status !== "PREPARED" && status !== "OPEN" && status !== "PENDING";

/**
 * Reads what the visitor pays, or how the payment stands if somebody is back from a provider's page in
 * a browser that has no session, or another user's.
 */
export function ownOrReturned<T>(readOwn: (signal: AbortSignal) => Promise<T>): (signal: AbortSignal) => Promise<T | Returned> {
  let stranger = false;
  return async (signal) => {
    const back = arrived();
    if (back && !stranger) {
      try {
        return await readOwn(signal);
      } catch (cause) {
        stranger = cause instanceof Problem && (cause.status === 401 || cause.status === 404);
        if (!stranger) throw cause;
      }
    }
    return back ? readReturned(back, signal) : readOwn(signal);
  };
}

/** Seconds until the state of a payment is read again; undefined once it is settled. */
export function untilSettled(): (returned: Returned) => number | undefined {
  let polls = 0;
  return (returned) => (settled(returned) ? undefined : ++polls < 30 ? 1 : 3);
}
