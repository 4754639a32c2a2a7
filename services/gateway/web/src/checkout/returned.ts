// Where a provider's page sent the buyer back: the fragment of the address names the payment and
// proves it, also to a browser without a session.

import { call } from "../lib/api";
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
export const readReturned = (back: Arrival, signal: AbortSignal): Promise<Returned> => call<Returned>("GET", back.path, { signal });

/** Whether the outcome is known. */
export const settled = ({ status }: Returned): boolean => status !== "PREPARED" && status !== "OPEN" && status !== "PENDING";
