// The state of a visitor in tier 2: the queue ticket while waiting, the entry token in the shop.

import { call, follow } from "./api";
import { repeat } from "./pace";
import { readStored, writeStored } from "./store";
import type { Place } from "./types";

const heartbeatSeconds = 10;

interface Beat {
  status: Place["status"];
  entryToken?: string;
  expiresAt?: number;
}

export class Line {
  private readonly ticketKey: string;
  private readonly tokenKey: string;
  private readonly leftKey: string;

  constructor(readonly eventId: string) {
    this.ticketKey = `urr-queue-${eventId}`;
    this.tokenKey = `urr-entry-${eventId}`;
    this.leftKey = `urr-left-${eventId}`;
  }

  /**
   * Headers with ticket and token. The token is in the cookie too, but a tab of another event may
   * have replaced it there; the header is read first.
   */
  headers(): Record<string, string> {
    const headers: Record<string, string> = {};
    const token = readStored(sessionStorage, this.tokenKey);
    const ticket = readStored(localStorage, this.ticketKey);
    if (token) headers["x-queue-entry-token"] = token;
    if (ticket) headers["x-queue-ticket"] = ticket;
    return headers;
  }

  /** Joins the line or returns the place in it. */
  check(signal?: AbortSignal): Promise<Place> {
    return this.ask("POST", "check", signal);
  }

  /** The place, without joining. */
  status(signal?: AbortSignal): Promise<Place> {
    return this.ask("GET", "status", signal);
  }

  /**
   * Leaves the line. Other tabs of this browser are told first: the next poll of one would join the
   * line again. If the call fails the place is still held and this tab stays in the line; the others
   * have stopped all the same, and offer to join again, which finds the place. Other devices are not
   * told: they join again, at the end.
   */
  async leave(): Promise<void> {
    writeStored(localStorage, this.leftKey, String(Date.now()));
    await call<void>("POST", `/queue/leave/${this.eventId}`, { headers: this.headers() });
    this.forget();
  }

  /** Calls `left` when the visitor leaves the line in another tab, until the signal is aborted. */
  onLeave(left: () => void, signal: AbortSignal): void {
    const listen = (event: StorageEvent) => {
      if (event.key === this.leftKey) left();
    };
    addEventListener("storage", listen, { signal });
  }

  /** Forgets ticket and token, so that they are not sent again. */
  forget(): void {
    writeStored(localStorage, this.ticketKey, "");
    writeStored(sessionStorage, this.tokenKey, "");
  }

  /**
   * Keeps the slot alive until the signal is aborted, and passes on its end (epoch ms) whenever the
   * server sends it. `over` is called once the slot has ended. Temporary failures are retried,
   * since a slot outlives two minutes without heartbeats.
   */
  hold(onEnd: (end: number) => void, over: () => void, signal: AbortSignal): Promise<void> {
    return repeat(
      async () => {
        const beat = await this.beat(signal);
        if (beat.status !== "active") return over();
        if (beat.expiresAt) onEnd(beat.expiresAt);
        return heartbeatSeconds;
      },
      (failure, retryIn) => {
        if (retryIn === undefined && !follow(failure)) over();
      },
      signal,
    );
  }

  private async beat(signal: AbortSignal): Promise<Beat> {
    const beat = await call<Beat>("POST", `/queue/heartbeat/${this.eventId}`, { headers: this.headers(), signal });
    this.keep(beat.entryToken);
    return beat;
  }

  private async ask(method: string, what: string, signal?: AbortSignal): Promise<Place> {
    const options = { headers: this.headers(), ...(signal ? { signal } : {}) };
    const place = await call<Place>(method, `/queue/${what}/${this.eventId}`, options);
    if (place.ticket) writeStored(localStorage, this.ticketKey, place.ticket);
    this.keep(place.entryToken);
    return place;
  }

  private keep(token: string | undefined): void {
    if (token) writeStored(sessionStorage, this.tokenKey, token);
  }
}
