// The waiting line of tier 2.

import { useEffect, useRef, useState } from "preact/hooks";
import { follow, Problem } from "../lib/api";
import { formatNumber } from "../lib/format";
import { setHeading } from "../lib/frame";
import { Line } from "../lib/line";
import { clock, repeat } from "../lib/pace";
import { pathPart, strings } from "../lib/page";
import { readEvent, SaleNotice, untilChange } from "../lib/sale";
import { isOver } from "../lib/standing";
import { start } from "../lib/start";
import { recall, remember } from "../lib/store";
import type { EventStatus, Place, SaleEvent } from "../lib/types";
import { Announce, Failure, Loading, Notice, useMainFocus } from "../lib/ui";
import { Figures, placeText, type Waiting } from "../queue/figures";

const t = strings("queue");
const common = strings("common");
const eventId = pathPart(1);
const line = new Line(eventId);
// How often the place is read out, however often it changes.
const announceMs = 20_000;
// Every so many answers the sale itself is asked about: its opening may have been moved, and a line of an older release
// does not say where the sale stands.
const saleEvery = 10;
// Seconds between two questions to a line that says that its sale is over while the event does not.
const doubtSeconds = 5;
// A line to which nobody has come yet learns of its sale by the first question, and says it soon after. One that has not
// said it after so many questions, so many seconds apart, is of an older release.
const silentAnswers = 10;
const silentSeconds = 2;

const clampPoll = (seconds: number): number => Math.min(60, Math.max(1, Number.isFinite(seconds) ? seconds : 3));

interface Show {
  sale(event: SaleEvent): void;
  place(place: Place): void;
  failure(failure: unknown, retrying: boolean): void;
}

/** The sale; nothing when it cannot be had at the moment, for then the line works on. */
async function sale(signal: AbortSignal): Promise<SaleEvent | undefined> {
  try {
    return await readEvent(eventId, signal);
  } catch (failure) {
    if (signal.aborted || (failure instanceof Problem && !failure.temporary)) throw failure;
    return undefined;
  }
}

/**
 * Whether the line keeps the places of those who come before the sale. One that does not say where the sale stands would
 * let them in, and a turn be spent with nothing to buy. Who has to sign in does it now, not when everybody comes.
 */
async function keepsPlaces(signal: AbortSignal): Promise<boolean> {
  return (await line.status(signal)).saleStatus !== undefined;
}

/**
 * The line's answer. When it says that the sale is over the event is read too, and counts: for some
 * seconds after a sale was opened again the line may not have heard of it, and the page would end for
 * good.
 */
async function confirmed(place: Place, signal: AbortSignal): Promise<Place> {
  if (!isOver(place.saleStatus)) return place;
  const event = await sale(signal);
  if (isOver(event?.status)) return place;
  const { saleStatus: _, ...rest } = place;
  return { ...rest, ...(event && { saleStatus: event.status }), nextPoll: doubtSeconds };
}

/**
 * Joins the line and asks for the place at the advised pace until it is the visitor's turn, or the sale is over.
 * Temporary failures are waited out: the place is kept by the server, and by the ticket if the server loses it.
 */
function stand(show: Show, signal: AbortSignal): Promise<void> {
  let join = true;
  let answers = 0;
  let silent = 0;
  return repeat(
    async () => {
      const event = answers % saleEvery === 0 ? await sale(signal) : undefined;
      if (event) {
        show.sale(event);
        if (isOver(event.status)) return undefined;
        if (event.status === "SCHEDULED" && join && !(await keepsPlaces(signal))) {
          return ++silent < silentAnswers ? silentSeconds : untilChange(event);
        }
      }
      const place = await confirmed(await (join ? line.check(signal) : line.status(signal)), signal);
      answers++;
      // Absent from every set: parked for long, or the line was lost. Checking again takes the old place back.
      const over = isOver(place.saleStatus);
      const lost = place.status === "none" && !join && !over;
      join = place.status === "none";
      if (!lost) show.place(place);
      if (place.status === "active" || over) return undefined;
      return lost ? 0 : clampPoll(place.nextPoll);
    },
    (failure, retryIn) => {
      if (!follow(failure)) show.failure(failure, retryIn !== undefined);
    },
    signal,
  );
}

/** The place from which the way is measured: the farthest one of this tab, also after a reload. */
function wayFrom(position: number): number {
  const key = `urr-way-queue-${eventId}`;
  const first = Math.max(Number(recall(sessionStorage, key)), position);
  remember(sessionStorage, key, String(first));
  return first;
}

/** Goes where the visitor's turn is spent. */
async function goIn(event: SaleEvent | undefined): Promise<void> {
  const known = event ?? (await readEvent(eventId).catch(() => undefined));
  const where = known && (known.seating === "ASSIGNED" ? "/seats" : "/book");
  location.replace(`/events/${eventId}${where ?? ""}`);
}

/** What is read out: the place, but not at every poll. */
function useSpoken(place: Place | undefined): string {
  const [spoken, setSpoken] = useState("");
  const last = useRef(0);
  useEffect(() => {
    if (place?.status !== "queued" || Date.now() - last.current < announceMs) return;
    last.current = Date.now();
    setSpoken(placeText(place));
  }, [place]);
  return spoken;
}

/** The line as it goes on, until `stop`; `again` begins anew. */
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
        setWaiting({ place: now, first: wayFrom(now.position), at: Date.now() });
        // A line that does not say where the sale stands leaves the sale's own word.
        if (now.saleStatus) setStatus(now.saleStatus);
      },
      failure: (failure, retrying) => setFailed({ failure, retrying }),
    };
    void stand(show, controller.signal);
    return () => controller.abort();
  }, [round]);
  const again = () => setRound((n) => n + 1);
  return { event, status, waiting, setWaiting, failed, setFailed, stop: () => abort.current?.abort(), again };
}

function Queue() {
  const { event, status, waiting, setWaiting, failed, setFailed, stop, again: goOn } = useLine();
  const [left, setLeft] = useState(false);
  const place = waiting?.place;
  const over = isOver(status);
  const spoken = useSpoken(place);
  // Where the figures go, so does the focus that was in them.
  useMainFocus(left || (over && waiting !== undefined));
  const title = event?.title || place?.eventTitle;
  useEffect(() => {
    if (title) setHeading(title);
    if (place?.status === "queued" && !over) document.title = `${formatNumber(place.position)} · ${title ?? t.title}`;
    if (place?.status === "active") void goIn(event);
  }, [place, title, over]);

  const again = () => {
    setLeft(false);
    setWaiting(undefined);
    setFailed(undefined);
    goOn();
  };
  const leave = async () => {
    if (!confirm(t.leaveSure)) return;
    stop();
    try {
      await line.leave();
      setLeft(true);
    } catch (failure) {
      setFailed({ failure, retrying: false });
      // The place is still held: back to it, after the words have been there to read.
      await clock.wait(3);
      goOn();
    }
  };

  if (left) return <Left again={again} />;
  const queued = place?.status === "queued" && !over;
  const early = status === "SCHEDULED" && !queued;
  return (
    <div class="card room">
      <SaleNotice status={status} opensAt={event?.salesOpenAt} waits={queued} />
      {failed && !over && <Failure {...failed} retry={failed.retrying ? undefined : again} />}
      {!place && !failed && !over && !early && <Notice>{t.joining}</Notice>}
      {place?.status === "active" && <Notice tone="good">{t.active}</Notice>}
      {place?.status === "none" && !over && !early && <Loading />}
      {waiting && queued && <Figures waiting={waiting} leave={() => void leave()} />}
      {over && <Over />}
      {!over && (early || (failed && !failed.retrying)) && <a href={`/events/${eventId}`}>{common.toEvent}</a>}
      <Announce text={spoken} />
    </div>
  );
}

function Over() {
  return (
    <p class="actions">
      <a href={`/events/${eventId}`}>{common.toEvent}</a>
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
        <a href={`/events/${eventId}`}>{common.toEvent}</a>
      </p>
    </div>
  );
}

start(Queue);
