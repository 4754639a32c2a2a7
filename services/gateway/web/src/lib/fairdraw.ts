// The verifier of draws and shuffles (urr.guru/pkg/fairdraw). The curves that it needs are a chunk of
// their own, loaded when a page verifies.

import type { DrawDocument, Options, Report } from "./fairdraw/types";

export type { DrawDocument, Options, Outcome, ReceiptReport, Report } from "./fairdraw/types";

export type Verdict = { ok: true; report: Report } | { ok: false; code: string; detail: string };

/** Checks everything that can be checked so far; `entries` is the published file, empty before the root. */
export async function verifyDraw(
  document: DrawDocument,
  entries: Uint8Array,
  options: Options = {},
): Promise<Verdict> {
  const { Fault, verify } = await import("./fairdraw/verify");
  try {
    return { ok: true, report: await verify(document, entries, options) };
  } catch (error) {
    if (error instanceof Fault) return { ok: false, code: error.code, detail: error.detail };
    throw error;
  }
}
