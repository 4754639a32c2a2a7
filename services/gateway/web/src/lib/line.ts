// A visitor's standing at tier 2: the queue ticket while waiting, the entry token while inside.

import { call, follow } from "./api";
import { repeat } from "./pace";
import { recall, remember } from "./store";
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

  constructor(readonly eventId: string) {
    this.ticketKey = `urr-queue-${eventId}`;
    this.tokenKey = `urr-entry-${eventId}`;
  }

  /**
   * Headers that carry the visitor's standing. The token stands in the cookie too, but another event's tab may have
   * replaced it there; the header is read first.
   */
  headers(): Record<string, string> {
    const headers: Record<string, string> = {};
    const token = recall(sessionStorage, this.tokenKey);
    const ticket = recall(localStorage, this.ticketKey);
    if (token) headers["x-queue-entry-token"] = token;
    if (ticket) headers["x-queue-ticket"] = ticket;
    return headers;
  }

  /** Joins the line or finds the place in it. */
  check(signal?: AbortSignal): Promise<Place> {
    return this.ask("POST", "check", signal);
  }

  /** The place, without joining. */
  status(signal?: AbortSignal): Promise<Place> {
    return this.ask("GET", "status", signal);
  }

  async leave(): Promise<void> {
    await call<void>("POST", `/queue/leave/${this.eventId}`, { headers: this.headers() });
    this.forget();
  }

  /** The place is gone: nothing of it shall be sent again. */
  forget(): void {
    remember(localStorage, this.ticketKey, "");
    remember(sessionStorage, this.tokenKey, "");
  }

  /**
   * Keeps the slot alive until the signal ends, and tells its end (epoch ms) whenever the server names it. `over` is
   * called once the slot has ended; failures in between are waited out, since the slot outlives two minutes of silence.
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
    if (place.ticket) remember(localStorage, this.ticketKey, place.ticket);
    this.keep(place.entryToken);
    return place;
  }

  private keep(token: string | undefined): void {
    if (token) remember(sessionStorage, this.tokenKey, token);
  }
}
