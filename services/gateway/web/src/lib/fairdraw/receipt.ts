import { hex, unbase64url, uuidText } from "./bytes";
import { isSignedBy } from "./terms";

export interface Receipt {
  eventId: string;
  requestId: string;
  at: number; // ms
  commitment: string; // in hex; empty for an event without a draw
}

const signatureSize = 64;

/** Verifies a receipt by the key of the commitment; undefined when it is not genuine. */
export function openReceipt(key: string, text: string): Receipt | undefined {
  const bytes = unbase64url(text);
  if (!bytes || bytes.length < signatureSize) return undefined;
  const body = bytes.subarray(0, -signatureSize);
  if (!isSignedBy(key, "urr/draw-receipt/1", body, bytes.subarray(-signatureSize))) return undefined;
  let at = 0;
  const take = (size: number) => body.subarray(at, (at += size));
  const prefixed = () => take(take(1)[0] ?? 0);
  const version = take(1)[0];
  prefixed(); // the key id
  const eventId = new TextDecoder().decode(prefixed());
  const requestId = take(16);
  const time = take(8);
  const commitment = prefixed();
  if (version !== 1 || at !== body.length || (commitment.length !== 0 && commitment.length !== 32)) return undefined;
  const ms = Number(new DataView(time.buffer, time.byteOffset, 8).getBigUint64(0));
  return { eventId, requestId: uuidText(requestId), at: ms, commitment: hex(commitment) };
}
