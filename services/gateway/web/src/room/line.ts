// The visitor's way through tier 1: takes a number once, keeps it, and asks until it is served.
//
// Most polls ask the serving counter, which is the same for everybody and comes from a cache; check, which is personal,
// is asked first, when the counter reaches the number, and now and then for the estimate and the advised pace.

import type { Clock } from "../lib/clock";
import { backoff, Problem, problemOf, request } from "../lib/problem";
import { recall, remember } from "../lib/store";

export interface Standing {
  requestId: string;
  position: number;
  ticket: string;
}

export interface Progress {
  position: number;
  serving: number;
  ahead: number;
  // Seconds.
  estimatedWait: number;
}

interface Assigned extends Standing {
  servingCounter: number;
  estimatedWait: number;
  nextPoll: number;
}

interface Checked {
  admitted: boolean;
  position: number;
  servingCounter: number;
  ahead: number;
  estimatedWait: number;
  nextPoll: number;
  ticket?: string;
}

/** What the page shows; `refused` and `admitted` end the wait. */
export interface Screen {
  taking(): void;
  // A number from an earlier visit; how far it is comes with the first answer.
  kept(position: number): void;
  progress(p: Progress): void;
  renewed(): void;
  offline(seconds: number, failure: Problem): void;
  refused(failure: Problem): void;
  admitted(): void;
}

// Every so many polls the personal answer is asked, see above.
const checkEvery = 5;

export class Room {
  private readonly key: string;

  constructor(
    private readonly eventId: string,
    private readonly clock: Clock,
    private readonly screen: Screen,
    private readonly language: () => string,
  ) {
    this.key = `urr-vwr-${eventId}`;
  }

  /** Waits until the visitor is let in, or until the server refuses for good. */
  async run(): Promise<void> {
    for (let failures = 0, lost = 0; ; ) {
      try {
        const kept = this.recall();
        if (kept) this.screen.kept(kept.position);
        const standing = kept ?? (await this.assign());
        if (!standing) return;
        failures = 0;
        if (await this.follow(standing, () => (lost = 0))) return;
        // The number is not known: another round, its record ended, or it is another visitor's. Take a new one, but
        // not in a tight loop should the server forget each of them.
        this.forget();
        this.screen.renewed();
        if (++lost > 1) await this.clock.wait(backoff(lost));
      } catch (failure) {
        if (!(failure instanceof Problem)) throw failure;
        if (!failure.temporary) return this.screen.refused(failure);
        const pause = backoff(++failures, failure.retryAfter);
        this.screen.offline(Math.ceil(pause), failure);
        await this.clock.wait(pause);
      }
    }
  }

  /** Takes a number; nothing when the waiting room is not open, for then everybody may go in. */
  private async assign(): Promise<Standing | undefined> {
    this.screen.taking();
    const answer = await this.ask("POST", `assign/${this.eventId}`);
    if (answer.status === 404) {
      this.screen.admitted();
      return undefined;
    }
    if (!answer.ok) throw await problemOf(answer);
    const assigned = (await answer.json()) as Assigned;
    const standing = { requestId: assigned.requestId, position: assigned.position, ticket: assigned.ticket };
    this.keep(standing);
    return standing;
  }

  /** Asks until the number is served (true) or unknown (false); `known` is told that the server knows it. */
  private async follow(standing: Standing, known: () => void): Promise<boolean> {
    let last: Checked | undefined;
    let serving = 0;
    for (let polls = 0, failures = 0; ; ) {
      let pause: number;
      try {
        // After a failure the other address is asked: a cache may be out of order where the gateway is not.
        const personal = polls % checkEvery === 0 || failures % 2 === 1;
        if (!last || personal || serving >= standing.position || serving < last.servingCounter) {
          last = await this.check(standing);
          if (!last) return false;
          known();
          if (last.admitted) {
            this.forget();
            this.screen.admitted();
            return true;
          }
          serving = last.servingCounter;
        } else {
          serving = await this.serving(standing);
        }
        polls++;
        failures = 0;
        this.screen.progress(progressOf(standing, last, serving));
        // The counter has reached the number: the token is one call away.
        pause = serving >= standing.position ? 0.5 : last.nextPoll;
      } catch (failure) {
        if (!(failure instanceof Problem) || !failure.temporary) throw failure;
        pause = backoff(++failures, failure.retryAfter);
        this.screen.offline(Math.ceil(pause), failure);
      }
      await this.clock.wait(Math.min(60, Math.max(0.5, pause)));
    }
  }

  /** The personal answer; nothing when the number is unknown. */
  private async check(standing: Standing): Promise<Checked | undefined> {
    const headers: Record<string, string> = standing.ticket ? { "x-vwr-ticket": standing.ticket } : {};
    const answer = await this.ask("GET", `check/${this.eventId}/${encodeURIComponent(standing.requestId)}`, headers);
    if (!answer.ok) {
      const failure = await problemOf(answer);
      if (failure.temporary) throw failure;
      return undefined;
    }
    const checked = (await answer.json()) as Checked;
    if (checked.ticket) {
      standing.ticket = checked.ticket;
      this.keep(standing);
    }
    return checked;
  }

  /** The counter for everybody; a closed room counts as having reached the number. */
  private async serving(standing: Standing): Promise<number> {
    const answer = await this.ask("GET", `serving/${this.eventId}`);
    if (!answer.ok) throw await problemOf(answer);
    const body = (await answer.json()) as { servingCounter: number; isActive: boolean };
    return body.isActive ? body.servingCounter : standing.position;
  }

  private ask(method: string, path: string, more: Record<string, string> = {}): Promise<Response> {
    const headers = { Accept: "application/json", "Accept-Language": this.language(), ...more };
    return request(`/vwr-api/vwr/${path}`, { method, headers });
  }

  private recall(): Standing | undefined {
    try {
      const kept = JSON.parse(recall(localStorage, this.key) || "null") as Partial<Standing> | null;
      if (!kept?.requestId || !kept.position) return undefined;
      return { requestId: kept.requestId, position: kept.position, ticket: kept.ticket ?? "" };
    } catch {
      return undefined;
    }
  }

  private keep(standing: Standing): void {
    remember(localStorage, this.key, JSON.stringify(standing));
  }

  private forget(): void {
    remember(localStorage, this.key, "");
  }
}

/** Between two personal answers the distance shrinks with the counter, and the estimate with the distance. */
function progressOf(standing: Standing, last: Checked, serving: number): Progress {
  const ahead = Math.max(0, standing.position - serving);
  const share = last.ahead > 0 ? Math.min(1, ahead / last.ahead) : 1;
  return { position: standing.position, serving, ahead, estimatedWait: last.estimatedWait * share };
}
