// The verifier of draws and shuffles (urr.guru/pkg/fairdraw). The curves that it needs are a chunk of
// their own, loaded when a page verifies.

import type { DrawDocument, InclusionProof, Options, Report } from "./fairdraw/types";

export type { DrawCopy, DrawDocument, InclusionProof, Options, Outcome, ReceiptReport, Report } from "./fairdraw/types";

export type Verdict = { ok: true; report: Report } | { ok: false; code: string; detail: string };

const verdictOf = async (verified: (code: Verifier) => Promise<Report> | Report): Promise<Verdict> => {
  const code = await import("./fairdraw/verify");
  try {
    return { ok: true, report: await verified(code) };
  } catch (error) {
    if (error instanceof code.Fault) return { ok: false, code: error.code, detail: error.detail };
    throw error;
  }
};

type Verifier = typeof import("./fairdraw/verify");
type Entries = import("./fairdraw/verify").Entries;

/** Checks everything that can be checked so far; entries are read from the root on only. */
export const verifyDraw = (document: DrawDocument, entries: Entries, options: Options = {}): Promise<Verdict> =>
  verdictOf(({ verify }) => verify(document, entries, options));

/** Checks whether the request of one receipt takes part, by its inclusion proof. */
export const verifyReceipt = (document: DrawDocument, proof: InclusionProof | undefined, options: Options): Promise<Verdict> =>
  verdictOf((code) => code.verifyReceipt(document, proof, options));
