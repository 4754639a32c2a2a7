// The waiting line of tier 2.

import { useEffect, useRef, useState } from "preact/hooks";
import { follow, Problem } from "../lib/api";
import { formatNumber } from "../lib/format";
import { setHeading } from "../lib/frame";
import { Line } from "../lib/line";
import { onward } from "../lib/onward";
import { clock, repeat } from "../lib/pace";
import { pathPart, strings } from "../lib/page";
import { PostponedNotice, readEvent, SaleNotice, undoable, untilChange } from "../lib/sale";
import { isOver } from "../lib/standing";
import { start } from "../lib/start";
import { readStored, writeStored } from "../lib/store";
import type { EventStatus, Place, SaleEvent } from "../lib/types";
import { Announce, Failure, Loading, Notice, useMainFocus } from "../lib/ui";
import { Figures, placeText, type Waiting } from "../queue/figures";
import { followPosition } from "../queue/position";

const t = strings("queue");
const common = strings("common");
const eventId = pathPart(1);
const line = new Line(eventId);
// The least time between two announcements of the place.
const announceMs = 20_000;
// The sale is read every so many polls: its opening may have been moved, or a paused sale be cancelled.
const salePollInterval = 10;
const pausedPollInterval = 2;
// Seconds until the next poll when the line says that the sale is over and the event does not.
const recheckSeconds = 5;
// Before anybody has joined a line, queue learns the status of the sale only after the first poll. A
// line that has not sent it after so many polls, so many seconds apart, cannot read it.
const unknownPolls = 10;
const unknownSeconds = 2;

const clampPoll = (seconds: number): number => Math.min(60, Math.max(1, Number.isFinite(seconds) ? seconds : 3));

interface Show {
  sale(event: SaleEvent): void;
  place(place: Place): void;
  failure(failure: unknown, retrying: boolean): void;
}

/** Reads the sale; undefined on a temporary failure, since the line works without it. */
async function readSale(signal: AbortSignal): Promise<SaleEvent | undefined> {
  try {
    return await readEvent(eventId, signal);
  } catch (failure) {
    if (signal.aborted || (failure instanceof Problem && !failure.temporary)) throw failure;
    return undefined;
  }
}

/**
 * Whether the line can be joined before the sale opens. One that does not know the status of the
 * sale might admit visitors, who would lose their turn with nothing to buy. This also makes
 * visitors sign in before the rush.
 */
async function keepsPlaces(signal: AbortSignal): Promise<boolean> {
  return (await line.status(signal)).saleStatus !== undefined;
}

/**
 * Checks a place whose sale is over: the event is read too, shown, and decides. For some seconds after
 * a sale is reopened the line may not know it, and the page would end for good; and for some seconds
 * after a cancellation has become final, the event may not say so.
 */
async function confirmOver(place: Place, show: Show, signal: AbortSignal): Promise<Place> {
  if (!isOver(place.saleStatus)) return place;
  const event = await readSale(signal);
  if (event) show.sale(event);
  const final = isOver(event?.status) && !(event && undoable(event));
  if (final) return place;
  const { saleStatus: _, ...rest } = place;
  const saleStatus = event && undoable(event) ? "PAUSED" : event?.status;
  return { ...rest, ...(saleStatus && { saleStatus }), nextPoll: recheckSeconds };
}

/**
 * Joins the line and polls at the advised interval until it is the turn of the visitor or the sale
 * is over. Temporary failures are retried: the server keeps the place, and the ticket restores it
 * if the server loses it.
 */
function waitInLine(show: Show, signal: AbortSignal): Promise<void> {
  let join = true;
  let answers = 0;
  let unknown = 0;
  // The event when it was read last, and whether the line says that the sale is paused. It says so too of
  // a cancelled event that may take place again.
  let last: SaleEvent | undefined;
  let paused = false;
  // Whoever is entitled, or about whom that is not known yet, waits without a number of the waiting room.
  // The page takes one all the same: joining with it may move the place forward, or be the only way.
  let following = false;
  let served = false;
  const takeNumber = (): void => {
    if (!following) followPosition(eventId, () => (served = true), signal);
    following = true;
  };
  return repeat(
    async () => {
      const event = answers % (paused ? pausedPollInterval : salePollInterval) === 0 ? await readSale(signal) : undefined;
      if (event) {
        last = event;
        show.sale(event);
        // Who has a place polls on, and keeps it in case the event takes place again.
        if (isOver(event.status) && (join || !undoable(event))) return untilChange(event);
        if (event.status === "SCHEDULED" && join && !(await keepsPlaces(signal))) {
          return ++unknown < unknownPolls ? unknownSeconds : untilChange(event);
        }
      }
      const withNumber = served;
      const place = await confirmOver(await (join || withNumber ? line.check(signal) : line.status(signal)), show, signal);
      answers++;
      if (withNumber) served = false;
      if (place.entitled) takeNumber();
      // Unknown to the line: evicted after a long absence, or the line was lost. Joining again
      // restores the old place.
      const over = isOver(place.saleStatus);
      const lost = place.status === "none" && !join && !over;
      join = place.status === "none";
      if (place.saleStatus === "PAUSED" && !paused) last = (await readSale(signal)) ?? last;
      paused = place.saleStatus === "PAUSED";
      const cancelled = paused && last?.status === "CANCELLED" ? last : undefined;
      if (cancelled) show.sale(cancelled);
      if (!lost) show.place(cancelled ? { ...place, saleStatus: cancelled.status } : place);
      if (place.status === "active" || over) return undefined;
      return lost ? 0 : clampPoll(place.nextPoll);
    },
    (failure, retryIn) => {
      if (failure instanceof Problem && failure.code === "ENTITLEMENT_UNKNOWN") takeNumber();
      if (!follow(failure)) show.failure(failure, retryIn !== undefined);
    },
    signal,
  );
}

/** The place from which progress is measured: the farthest one of this tab, kept over reloads. */
function progressStart(position: number): number {
  const key = `urr-way-queue-${eventId}`;
  const first = Math.max(Number(readStored(sessionStorage, key)), position);
  writeStored(sessionStorage, key, String(first));
  return first;
}

/** Goes to the page where tickets are chosen. */
async function enterShop(event: SaleEvent | undefined): Promise<void> {
  const known = event ?? (await readEvent(eventId).catch(() => undefined));
  const where = known && (known.seating === "GENERAL" ? "/book" : "/seats");
  location.replace(onward(`/events/${eventId}${where ?? ""}`));
}

/** The announcement of the place, which is limited in frequency. */
function useAnnouncement(place: Place | undefined): string {
  const [announcement, setAnnouncement] = useState("");
  const last = useRef(0);
  useEffect(() => {
    if (place?.status !== "queued" || Date.now() - last.current < announceMs) return;
    last.current = Date.now();
    setAnnouncement(placeText(place));
  }, [place]);
  return announcement;
}

/** The state of the line until `stop`; `again` starts over. */
function useLine() {
  const [round, setRound] = useState(0);
  const [event, setEvent] = useState<SaleEvent>();
  const [status, setStatus] = useState<EventStatus>();
  const [waiting, setWaiting] = useState<Waiting>();
  const [failed, setFailed] = useState<{ failure: unknown; retrying: boolean }>();
  const abort = useRef<AbortController>(undefined);
  useEffect(() => {
    const controller = new AbortController();
    abort.current = controller;
    const show: Show = {
      sale(now) {
        setEvent(now);
        setStatus(now.status);
      },
      place(now) {
        setFailed(undefined);
        setWaiting({ place: now, first: progressStart(now.position), at: Date.now() });
        // Without a status from the line, that of the event stays.
        if (now.saleStatus) setStatus(now.saleStatus);
      },
      failure: (failure, retrying) => {
        setFailed({ failure, retrying });
        // A blocked visitor has lost the place.
        if (failure instanceof Problem && failure.code === "USER_BLOCKED") setWaiting(undefined);
      },
    };
    void waitInLine(show, controller.signal);
    return () => controller.abort();
  }, [round]);
  const again = () => setRound((n) => n + 1);
  return { event, status, waiting, setWaiting, failed, setFailed, stop: () => abort.current?.abort(), again };
}

function Queue() {
  const { event, status, waiting, setWaiting, failed, setFailed, stop, again: rejoin } = useLine();
  const [left, setLeft] = useState(false);
  const place = waiting?.place;
  const over = isOver(status);
  const announcement = useAnnouncement(place);
  // Move the focus when the figures disappear.
  useMainFocus(left || (over && waiting !== undefined));
  const title = event?.title || place?.eventTitle;
  useEffect(() => {
    if (title) setHeading(title);
    if (place?.status === "queued" && !over) document.title = `${formatNumber(place.position)} · ${title ?? t.title}`;
    if (place?.status === "active") void enterShop(event);
  }, [place, title, over]);
  useEffect(() => {
    const shown = new AbortController();
    line.onLeave(() => {
      stop();
      setLeft(true);
    }, shown.signal);
    return () => shown.abort();
  }, []);

  const again = () => {
    setLeft(false);
    setWaiting(undefined);
    setFailed(undefined);
    rejoin();
  };
  const leave = async () => {
    if (!confirm(t.leaveSure)) return;
    stop();
    try {
      await line.leave();
      setLeft(true);
    } catch (failure) {
      setFailed({ failure, retrying: false });
      // The place is still held: rejoin, after the message could be read.
      await clock.wait(3);
      rejoin();
    }
  };

  if (left) return <Left again={again} />;
  const queued = place?.status === "queued" && !over;
  const early = status === "SCHEDULED" && !queued;
  // Any other state of the sale explains itself why nobody is admitted.
  const paused = queued && place.paused && (!status || status === "ON_SALE" || status === "PRESALE");
  return (
    <div class="card room">
      {event && <PostponedNotice event={event} />}
      <SaleNotice status={status} event={event} waits={queued} entitled={queued ? place.entitled : undefined} />
      {paused && <Notice>{t.paused}</Notice>}
      {failed && !over && <Failure {...failed} retry={failed.retrying ? undefined : again} />}
      {!place && !failed && !over && !early && <Notice>{t.joining}</Notice>}
      {place?.status === "active" && <Notice tone="good">{t.active}</Notice>}
      {place?.status === "none" && !over && !early && <Loading />}
      {waiting && queued && <Figures waiting={waiting} leave={() => void leave()} />}
      {over && <Over />}
      {!over && (early || (failed && !failed.retrying)) && <a href={onward(`/events/${eventId}`)}>{common.toEvent}</a>}
      <Announce text={announcement} />
    </div>
  );
}

function Over() {
  return (
    <p class="actions">
      <a href={onward(`/events/${eventId}`)}>{common.toEvent}</a>
      <a href="/">{common.toEvents}</a>
    </p>
  );
}

function Left({ again }: { again: () => void }) {
  return (
    <div class="card">
      <Notice>{t.left}</Notice>
      <p class="actions">
        <button type="button" onClick={again}>
          {common.joinAgain}
        </button>
        <a href={onward(`/events/${eventId}`)}>{common.toEvent}</a>
      </p>
    </div>
  );
}

start(Queue);
