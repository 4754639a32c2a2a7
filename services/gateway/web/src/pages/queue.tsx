// The waiting line of tier 2.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, follow, Problem } from "../lib/api";
import { formatNumber } from "../lib/format";
import { setHeading } from "../lib/frame";
import { Line } from "../lib/line";
import { clock, repeat } from "../lib/pace";
import { pathPart, strings } from "../lib/page";
import { isOver, readEvent, SaleNotice, untilChange } from "../lib/sale";
import { start } from "../lib/start";
import { recall, remember } from "../lib/store";
import type { Place, SaleEvent } from "../lib/types";
import { Announce, Failure, Loading, Notice, useMainFocus } from "../lib/ui";
import { Figures, placeText, type Waiting } from "../queue/figures";

const t = strings("queue");
const common = strings("common");
const eventId = pathPart(1);
const line = new Line(eventId);
// How often the place is read out, however often it changes.
const announceMs = 20_000;
// Every so many answers the sale itself is asked about: it may sell out, be paused or end meanwhile.
const saleEvery = 10;

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
 * Joins the line and asks for the place at the advised pace until it is the visitor's turn. Nobody joins before the sale,
 * where a turn would be spent with nothing to buy, nor after it. Temporary failures are waited out: the place is kept by
 * the server, and by the ticket if the server loses it.
 */
function stand(show: Show, signal: AbortSignal): Promise<void> {
  let join = true;
  let answers = 0;
  return repeat(
    async () => {
      const event = answers % saleEvery === 0 ? await sale(signal) : undefined;
      if (event) {
        show.sale(event);
        if (isOver(event)) return undefined;
        if (event.status === "SCHEDULED") {
          // Who has to sign in does it now, not when everybody comes.
          await call("GET", "/auth/me", { signal });
          return untilChange(event);
        }
      }
      const place: Place = await (join ? line.check(signal) : line.status(signal));
      answers++;
      // Absent from every set: parked for long, or the line was lost. Checking again takes the old place back.
      const lost = place.status === "none" && !join;
      join = place.status === "none";
      if (!lost) show.place(place);
      if (place.status === "active") return undefined;
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

function Queue() {
  const [round, setRound] = useState(0);
  const [event, setEvent] = useState<SaleEvent>();
  const [waiting, setWaiting] = useState<Waiting>();
  const [failed, setFailed] = useState<{ failure: unknown; retrying: boolean }>();
  const [left, setLeft] = useState(false);
  const abort = useRef<AbortController>(undefined);
  const place = waiting?.place;
  const spoken = useSpoken(place);
  useMainFocus(left);

  useEffect(() => {
    const controller = new AbortController();
    abort.current = controller;
    const show: Show = {
      sale: setEvent,
      place(now) {
        setFailed(undefined);
        setWaiting({ place: now, first: wayFrom(now.position), at: Date.now() });
      },
      failure: (failure, retrying) => setFailed({ failure, retrying }),
    };
    void stand(show, controller.signal);
    return () => controller.abort();
  }, [round]);
  const title = event?.title || place?.eventTitle;
  useEffect(() => {
    if (title) setHeading(title);
    if (place?.status === "queued") document.title = `${formatNumber(place.position)} · ${title ?? t.title}`;
    if (place?.status === "active") void goIn(event);
  }, [place, title]);

  const again = () => {
    setLeft(false);
    setWaiting(undefined);
    setFailed(undefined);
    setRound((n) => n + 1);
  };
  const leave = async () => {
    if (!confirm(t.leaveSure)) return;
    abort.current?.abort();
    try {
      await line.leave();
      setLeft(true);
    } catch (failure) {
      setFailed({ failure, retrying: false });
      // The place is still held: back to it, after the words have been there to read.
      await clock.wait(3);
      setRound((n) => n + 1);
    }
  };

  if (left) return <Left again={again} />;
  const closed = event && (isOver(event) || event.status === "SCHEDULED");
  return (
    <div class="card room">
      {event && <SaleNotice event={event} />}
      {failed && <Failure {...failed} retry={failed.retrying ? undefined : again} />}
      {!place && !failed && !closed && <Notice>{t.joining}</Notice>}
      {place?.status === "active" && <Notice tone="good">{t.active}</Notice>}
      {place?.status === "none" && <Loading />}
      {waiting && place?.status === "queued" && !closed && <Figures waiting={waiting} leave={() => void leave()} />}
      {(closed || (failed && !failed.retrying)) && <a href={`/events/${eventId}`}>{common.toEvent}</a>}
      <Announce text={spoken} />
    </div>
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
