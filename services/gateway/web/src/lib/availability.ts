// Follows which seats are free: by a stream of changes, or by polls where there is none.

import { useEffect, useState } from "preact/hooks";
import { follow, send } from "./api";
import { readEvents } from "./eventstream";
import type { Line } from "./line";
import { repeat, untilVisible } from "./pace";
import { page } from "./page";
import { problemOf } from "./problem";
import { seatsAfter, versionOf } from "./seatchanges";
import type { Availability } from "./types";

const pollSeconds = 3;
// The pause before the next stream, when one has ended.
const againSeconds = 1;
// A stream without its heartbeats, every 5 seconds, is dead. Some proxies let nothing through.
const quietSeconds = 12;
// How long the page polls after a failed stream; each further failure doubles it.
const refusedSeconds = 30;

export interface LiveAvailability {
  // Undefined until the first response: an unknown seat does not count as taken.
  now: Availability | undefined;
  failure: unknown;
  // Polls now instead of after the pause.
  refresh: () => void;
}

/** Follows the availability while the page is visible. */
export function useAvailability(line: Line): LiveAvailability {
  const [now, setNow] = useState<Availability>();
  const [failure, setFailure] = useState<unknown>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    const seats = new Seats(line, setNow, abort.signal);
    const attempt = async () => {
      await untilVisible(abort.signal);
      await seats.poll();
      setFailure(undefined);
      return (await seats.stream()) ? againSeconds : pollSeconds;
    };
    void repeat(attempt, (cause) => follow(cause) || setFailure(cause), abort.signal);
    return () => abort.abort();
  }, [round]);
  return { now, failure, refresh: () => setRound((n) => n + 1) };
}

class Seats {
  private now: Availability | undefined;
  private etag = "";
  private version = "";
  private failures = 0;
  private notBefore = 0;

  constructor(
    private readonly line: Line,
    private readonly show: (now: Availability) => void,
    private readonly signal: AbortSignal,
  ) {}

  /** Polls once; an unchanged response is an empty 304. */
  async poll(): Promise<void> {
    const headers = { ...this.line.headers(), ...(this.etag ? { "If-None-Match": this.etag } : {}) };
    const answer = await send("GET", `/seats/${this.line.eventId}/availability`, { headers, signal: this.signal });
    if (answer.status === 304) return;
    if (!answer.ok) throw await problemOf(answer);
    const etag = answer.headers.get("ETag") ?? "";
    this.set((await answer.json()) as Availability, versionOf(etag), etag);
  }

  private set(now: Availability | undefined, version: string, etag: string): void {
    if (!now) return;
    this.now = now;
    this.version = version;
    this.etag = etag;
    if (!this.signal.aborted) this.show(now);
  }

  /** Follows a stream to its end, while the page is visible. False: there was none. */
  async stream(): Promise<boolean> {
    if (this.signal.aborted || performance.now() < this.notBefore) return false;
    const stop = new AbortController();
    const end = () => stop.abort();
    const hidden = () => document.hidden && end();
    let quiet = setTimeout(end, quietSeconds * 1000);
    let alive = false;
    this.signal.addEventListener("abort", end, { signal: stop.signal });
    document.addEventListener("visibilitychange", hidden, { signal: stop.signal });
    try {
      const init: RequestInit = { headers: this.headers(), cache: "no-store", signal: stop.signal };
      const answer = await fetch(`/api/v1/seats/${this.line.eventId}/changes`, init);
      if (answer.ok) {
        await readEvents(
          answer,
          (event) => event.id && this.set(seatsAfter(event, this.now), event.id, `"${event.id}"`),
          () => {
            alive = true;
            clearTimeout(quiet);
            quiet = setTimeout(end, quietSeconds * 1000);
          },
        );
      }
    } catch {
      // Polls go on, and say what is wrong.
    } finally {
      clearTimeout(quiet);
      end();
    }
    this.failures = alive || document.hidden ? 0 : this.failures + 1;
    if (this.failures > 0) this.notBefore = performance.now() + refusedSeconds * 1000 * 2 ** Math.min(this.failures - 1, 6);
    return alive;
  }

  private headers(): Record<string, string> {
    return { ...this.line.headers(), Accept: "text/event-stream", "Accept-Language": page.lang, "Last-Event-ID": this.version };
  }
}
