// The way of a visitor through tier 1: takes a number once, keeps it, and polls until it is served.
// Before the start of a room with a lobby there are no numbers: users join, and wait for the draw.
//
// Most polls read the serving counter, which is the same for everybody and cached. check is
// personal. It is called first, when the counter reaches the number, and now and then for the
// estimate. The interval follows the wait and is computed anew at every poll.

import type { Clock } from "../lib/clock";
import { observeServerTime, serverNow } from "../lib/now";
import { nextAsk, poll, type Turn } from "../lib/poll";
import { Problem, problemOf, request } from "../lib/problem";
import { keepLobbyReceipt } from "../lib/receipts";
import { isOver } from "../lib/standing";
import { readStored, writeStored } from "../lib/store";
import type { EventStatus } from "../lib/types";
import { alone } from "./alone";
import { pollInterval } from "./interval";
import type { Assigned, Challenge, Checked, Joined, Serving } from "./answers";
import type { Solve } from "./proof";

export interface Standing {
  requestId: string;
  // 0 for an entry of the lobby whose position is not drawn yet.
  position: number;
  ticket: string;
  // Of an entry of the lobby: the signed proof.
  receipt?: string;
  // It is the user's, and not the browser's.
  ofUser?: boolean;
}

/** The times of a lobby, in epoch milliseconds. */
export interface Schedule {
  // 0 where the response does not tell.
  lobbyOpensAt: number;
  closesAt: number;
  opensAt: number;
  // When it is this visitor's turn to ask for a number, or for the drawn one.
  asksAt: number;
}

export interface Progress {
  position: number;
  serving: number;
  ahead: number;
  // Seconds; undefined while nobody is served or let in behind the room.
  estimatedWait: number | undefined;
  sale: EventStatus | undefined;
}

/** What a room stands in front of: an event with its line, a promotion, or a reward campaign. */
export type Next = "QUEUE" | "PROMO" | "REWARD";

/** The page; `refused` and `admitted` end the wait. */
export interface Screen {
  taking(): void;
  // A position costs a proof of work.
  solving(): void;
  // A number from an earlier visit; progress follows with the first response.
  kept(position: number): void;
  progress(p: Progress): void;
  // Before the start, and then before the visitor's turn. The receipt is that of who has joined. In a
  // presale some may enter without a number.
  lobby(schedule: Schedule, receipt: string | undefined, presale: boolean): void;
  // The position was drawn.
  drawn(): void;
  renewed(): void;
  // The session has ended. The entry or the number belongs to the user, and is kept.
  signedOut(): void;
  // Only signed-in users get a number.
  signIn(): void;
  // Only who passes the test of a challenge provider gets a number.
  test(page: string): void;
  offline(seconds: number, failure: Problem): void;
  refused(failure: Problem): void;
  admitted(next: Next | undefined): void;
  // The sale is over; progress follows if it is reopened.
  over(sale: EventStatus): void;
}

// Calls that may give the visitor an id.
const issuesID = /^(assign|challenge|lobby)\//;
// check is called every so many polls, see above.
const checkEvery = 5;
// So many responses in a row that the sale is over end the wait: for some seconds after a sale is
// reopened, some may be outdated.
const overLimit = 3;
// Seconds until the next attempt after a challenge was refused.
const challengeRetry = 5;
// The least time between two reads of an event whose sale is paused.
const pausedMs = 20_000;
// Over so many ms the crowd outside a lobby asks at its start where the server spreads nothing, as for a
// crowd that it does not know.
const unspreadMs = 3_000;
// Seconds between two looks at a lobby from outside, without advice.
const outsidePoll = 30;
// Seconds between two polls of who has to sign in again.
const signedOutPoll = 30;

export class Room {
  private readonly key: string;
  private standing: Standing | undefined;
  private last: Checked | undefined;
  private serving = 0;
  private sale: EventStatus | undefined;
  private polls = 0;
  // Numbers in a row that the server did not know.
  private lost = 0;
  // Responses in a row that the sale is over.
  private overs = 0;
  // When the event was read, and whether it was cancelled then.
  private eventReadAt = -Infinity;
  private cancelled = false;
  private schedule: Schedule | undefined;
  // The proof of work for a number, and how many were refused in a row.
  private proof: string | undefined;
  private refusedProofs = 0;
  // A number was taken, or the lobby joined, since the page was opened.
  private taken = false;
  private polling = new AbortController();

  constructor(
    private readonly eventId: string,
    private readonly clock: Clock,
    private readonly screen: Screen,
    private readonly language: () => string,
    private readonly solve: Solve,
    // The token of a passed test, from its page.
    private readonly captcha = "",
  ) {
    this.key = `urr-vwr-${eventId}`;
    this.standing = this.restore();
    if (this.standing?.position) screen.kept(this.standing.position);
  }

  /** Ends the polling; the number is kept. */
  stop(): void {
    this.polling.abort();
  }

  /** Polls until the visitor is admitted, the sale is over, or the server refuses permanently. */
  run(): Promise<void> {
    const failed = (failure: unknown, retryIn: number | undefined): void => {
      if (!(failure instanceof Problem)) throw failure;
      if (retryIn === undefined) this.screen.refused(failure);
      else this.screen.offline(Math.ceil(retryIn), failure);
    };
    return poll(this.clock, (failures) => this.pollOnce(failures), failed, this.polling.signal);
  }

  /**
   * Joins the lobby, or finds the entry of the user, and goes on with it. Returns false if the user
   * has to sign in first; throws a Problem if there is no entry and the lobby takes none.
   */
  async join(): Promise<boolean> {
    const answer = await this.call("POST", `lobby/${this.eventId}`);
    if (answer.status === 401) return false;
    if (!answer.ok) throw await problemOf(answer);
    const joined = (await answer.json()) as Joined;
    this.standing = { requestId: joined.requestId, position: 0, ticket: joined.ticket, receipt: joined.receipt };
    this.schedule = { lobbyOpensAt: 0, closesAt: joined.closesAt, opensAt: joined.opensAt, asksAt: 0 };
    this.taken = true;
    this.keep(this.standing);
    keepLobbyReceipt(this.eventId, joined.requestId, joined.receipt);
    // The loop waits for a number: another one goes on with the entry.
    this.polling.abort();
    this.polling = new AbortController();
    this.last = undefined;
    this.polls = 0;
    void this.run();
    return true;
  }

  /** Polls once, and returns when to poll next. */
  private async pollOnce(failures: number): Promise<number | Turn | undefined> {
    const standing = this.standing ?? (await this.assign());
    if (!standing) return standing;
    if (typeof standing === "number" || "at" in standing) return standing;
    this.standing = standing;
    // After a failure the other URL is used: a cache may fail while the gateway works.
    const personal = this.polls % checkEvery === 0 || failures % 2 === 1;
    if (!this.last || personal || standing.position === 0 || this.serving >= standing.position || this.serving < this.last.servingCounter) {
      const checked = await this.check(standing);
      if (checked === "signed out") return this.signedOut();
      this.last = checked;
      if (!this.last) return this.renew();
      this.lost = 0;
      if (this.last.admitted) return this.admitted(this.last.next);
      if (this.last.phase === "LOBBY") return this.inLobby(standing, this.last);
      if (standing.position === 0) this.placed(standing, this.last.position);
      this.serving = this.last.servingCounter;
      this.sale = this.last.saleStatus;
    } else {
      this.serving = await this.readServing(standing);
    }
    this.polls++;
    if (isOver(this.sale)) return this.over(this.sale);
    this.overs = 0;
    const progress = progressOf(standing, this.last, this.serving);
    this.screen.progress({ ...progress, sale: await this.shownSale() });
    // The counter has reached the number: the next call returns the token.
    return this.serving >= standing.position ? 0.5 : pollInterval(progress.ahead, progress.estimatedWait);
  }

  /**
   * The state of the sale to show. A cancelled event that may take place again is paused for the room,
   * which keeps its numbers: the event itself says so.
   */
  private async shownSale(): Promise<EventStatus | undefined> {
    if (this.sale !== "PAUSED") {
      this.cancelled = false;
      return this.sale;
    }
    if (Date.now() - this.eventReadAt >= pausedMs) {
      this.eventReadAt = Date.now();
      // Without an answer the last one counts: the wait does not depend on it.
      const init = { method: "GET", headers: { Accept: "application/json" } };
      const answer = await request(`/api/v1/events/${this.eventId}`, init).catch(() => undefined);
      if (answer?.ok) this.cancelled = ((await answer.json()) as { status?: EventStatus }).status === "CANCELLED";
    }
    return this.cancelled ? "CANCELLED" : this.sale;
  }

  private inLobby(standing: Standing, checked: Checked): number | Turn | undefined {
    this.polls++;
    if (isOver(checked.saleStatus)) return this.over(checked.saleStatus);
    this.overs = 0;
    const opensAt = checked.opensAt ?? 0;
    const asksAt = checked.asksAt ?? 0;
    this.screen.lobby({ lobbyOpensAt: 0, closesAt: 0, ...this.schedule, opensAt, asksAt }, standing.receipt, checked.saleStatus === "PRESALE");
    return nextAsk(asksAt, checked.nextPoll);
  }

  /** The position of an entry was drawn. */
  private placed(standing: Standing, position: number): void {
    standing.position = position;
    this.keep(standing);
    this.screen.drawn();
  }

  /**
   * Waits outside the lobby for its start, looking now and then whether an operator opens the room; and
   * after the start of any room for the turn of this visitor.
   */
  private outside(failure: Problem): number | Turn {
    const times = failure.body as Partial<Record<keyof Schedule, string>>;
    const at = (name: keyof Schedule): number => Number(times[name] ?? 0) || 0;
    this.schedule = { lobbyOpensAt: at("lobbyOpensAt"), closesAt: at("closesAt"), opensAt: at("opensAt"), asksAt: at("asksAt") };
    const { saleStatus } = failure.body as { saleStatus?: EventStatus };
    this.screen.lobby(this.schedule, undefined, saleStatus === "PRESALE");
    const { asksAt, opensAt } = this.schedule;
    const next = nextAsk(asksAt, failure.retryAfter || outsidePoll);
    return asksAt === opensAt && typeof next !== "number" ? { at: asksAt + unspreadMs * Math.random() } : next;
  }

  /** Keeps the entry, and looks now and then whether the user has signed in, in another tab. */
  private signedOut(): number {
    this.last = undefined;
    this.polls = 0;
    this.screen.signedOut();
    return signedOutPoll;
  }

  private admitted(next: Next | undefined): undefined {
    this.forget();
    this.screen.admitted(next);
  }

  /** Lets the visitor pass a room that is not active. Its state still tells where it leads. */
  private async pass(): Promise<undefined> {
    const answer = await this.call("GET", `status/${this.eventId}`);
    if (!answer.ok) throw await problemOf(answer);
    return this.admitted(((await answer.json()) as { next?: Next }).next);
  }

  /**
   * Nobody is admitted any more unless an operator reopens the sale, so the number is kept. Polls
   * again after 30 to 60 seconds (`poll` adds 10 %), to spread the crowd.
   */
  private over(sale: EventStatus): number | undefined {
    this.screen.over(sale);
    return ++this.overs < overLimit ? 34 + 20 * Math.random() : undefined;
  }

  /**
   * The number is unknown: it is of another round or visitor, or expired. Takes a new one, but not
   * in a tight loop.
   */
  private renew(): number {
    this.forget();
    this.standing = undefined;
    this.polls = 0;
    this.screen.renewed();
    return Math.min(30, this.lost++ * 2);
  }

  /**
   * Takes a number; undefined when no waiting room is active, so that everybody may enter, and when to
   * try again while there are no numbers for this visitor.
   */
  private async assign(): Promise<Standing | number | Turn | undefined> {
    if (!this.schedule) this.screen.taking();
    const headers: Record<string, string> = {};
    if (this.proof) headers["x-vwr-proof"] = this.proof;
    if (this.captcha) headers["x-vwr-captcha"] = this.captcha;
    const answer = await this.call("POST", `assign/${this.eventId}`, headers);
    if (answer.status === 404) return this.pass();
    if (!answer.ok) {
      const failure = await problemOf(answer);
      if (failure.code === "LOBBY_OPEN" || failure.code === "ASK_LATER") return this.outside(failure);
      if (failure.code === "PROOF_REQUIRED") return this.prove();
      if (failure.status === 401 && failure.code !== "VISITOR_REQUIRED") {
        this.screen.signIn();
        return signedOutPoll;
      }
      const { captchaUrl } = failure.body as { captchaUrl?: string };
      if (captchaUrl && !this.captcha) return this.screen.test(captchaUrl) as undefined;
      throw failure;
    }
    this.schedule = undefined;
    this.proof = undefined;
    this.refusedProofs = 0;
    this.taken = true;
    const assigned = (await answer.json()) as Assigned;
    const standing: Standing = { requestId: assigned.requestId, position: assigned.position, ticket: assigned.ticket };
    if (assigned.ofUser) standing.ofUser = true;
    this.keep(standing);
    return standing;
  }

  /**
   * Does the work that a number costs, and returns the seconds until it is asked for again. The proof is
   * kept until there is a number: a request may fail.
   */
  private async prove(): Promise<number> {
    if (this.proof) {
      // It came too late, or the room was opened anew. Begins again, but not in a tight loop.
      this.proof = undefined;
      return Math.min(30, 2 * ++this.refusedProofs);
    }
    this.screen.solving();
    const answer = await this.call("GET", `challenge/${this.eventId}`);
    if (!answer.ok) {
      const failure = await problemOf(answer);
      if (failure.temporary) throw failure;
      return challengeRetry; // assign says what has changed
    }
    const { challenge, difficulty, expiresAt } = (await answer.json()) as Challenge;
    this.proof = await this.solve({ challenge, difficulty, ms: expiresAt - serverNow() });
    return this.proof ? 0 : challengeRetry; // the time was too short
  }

  /** Calls check; undefined when the number is unknown. */
  private async check(standing: Standing): Promise<Checked | "signed out" | undefined> {
    const headers: Record<string, string> = standing.ticket ? { "x-vwr-ticket": standing.ticket } : {};
    const answer = await this.call("GET", `check/${this.eventId}/${encodeURIComponent(standing.requestId)}`, headers);
    if (!answer.ok) {
      const failure = await problemOf(answer);
      if (failure.temporary) throw failure;
      if (failure.code === "VISITOR_REQUIRED") return this.withoutCookie(failure);
      return failure.status === 401 && (standing.receipt || standing.ofUser) ? "signed out" : undefined;
    }
    const checked = (await answer.json()) as Checked;
    if (checked.ticket) {
      standing.ticket = checked.ticket;
      this.keep(standing);
    }
    return checked;
  }

  /**
   * The cookie of the number is gone. If it was set since the page was opened, the browser keeps none:
   * another number would be of no use either.
   */
  private withoutCookie(failure: Problem): undefined {
    if (!this.taken) return undefined;
    this.forget();
    throw failure;
  }

  /** Reads the serving counter; an inactive room counts as having reached the number. */
  private async readServing(standing: Standing): Promise<number> {
    const answer = await this.call("GET", `serving/${this.eventId}`);
    if (!answer.ok) throw await problemOf(answer);
    const body = (await answer.json()) as Serving;
    this.sale = body.saleStatus;
    return body.isActive ? body.servingCounter : standing.position;
  }

  private async call(method: string, path: string, more: Record<string, string> = {}): Promise<Response> {
    const headers = { Accept: "application/json", "Accept-Language": this.language(), ...more };
    let sent = 0;
    const send = (): Promise<Response> => {
      sent = Date.now();
      return request(`/vwr-api/vwr/${path}`, { method, headers });
    };
    const answer = await (issuesID.test(path) ? alone(send) : send());
    // The answer of serving may come from a cache, with the time at which it was made.
    if (!path.startsWith("serving/")) observeServerTime(answer, sent);
    return answer;
  }

  private restore(): Standing | undefined {
    try {
      const kept = JSON.parse(readStored(localStorage, this.key) || "null") as Partial<Standing> | null;
      if (!kept?.requestId || !(kept.position || kept.receipt)) return undefined;
      const standing: Standing = { requestId: kept.requestId, position: kept.position ?? 0, ticket: kept.ticket ?? "" };
      if (kept.receipt) standing.receipt = kept.receipt;
      if (kept.ofUser) standing.ofUser = true;
      return standing;
    } catch {
      return undefined;
    }
  }

  private keep(standing: Standing): void {
    writeStored(localStorage, this.key, JSON.stringify(standing));
  }

  private forget(): void {
    writeStored(localStorage, this.key, "");
  }
}

/** Between two calls of check the distance follows the counter, and the estimate the distance. */
function progressOf(standing: Standing, last: Checked, serving: number): Omit<Progress, "sale"> {
  const ahead = Math.max(0, standing.position - serving);
  const share = last.ahead > 0 ? Math.min(1, ahead / last.ahead) : 1;
  const estimatedWait = last.estimatedWait === undefined ? undefined : last.estimatedWait * share;
  return { position: standing.position, serving, ahead, estimatedWait };
}
