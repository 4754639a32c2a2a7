// The waiting line of tier 2.

import { useEffect, useRef, useState } from "preact/hooks";
import { backoff, call, follow, Problem } from "../lib/api";
import { formatDuration, formatNumber } from "../lib/format";
import { setHeading } from "../lib/frame";
import { clock, Line } from "../lib/line";
import { fill, pathPart, strings } from "../lib/page";
import { start } from "../lib/start";
import type { Place, SaleEvent } from "../lib/types";
import { Announce, Failure, Loading, Notice, useMainFocus } from "../lib/ui";

const t = strings("queue");
const eventId = pathPart(1);
const line = new Line(eventId);
// How often the place is read out, however often it changes.
const announceMs = 20_000;

const clampPoll = (seconds: number): number => Math.min(60, Math.max(1, Number.isFinite(seconds) ? seconds : 3));

const waitText = (seconds: number): string => (seconds < 60 ? t.soon : formatDuration(seconds));

/**
 * Joins the line and asks for the place at the advised pace until it is the visitor's turn. Temporary failures are
 * waited out: the place is kept by the server, and by the ticket if the server loses it.
 */
async function follower(show: (place: Place) => void, fail: (failure: unknown) => void, signal: AbortSignal) {
  let join = true;
  for (let failures = 0; !signal.aborted; ) {
    let pause: number;
    try {
      const place: Place = await (join ? line.check(signal) : line.status(signal));
      // Absent from every set: parked for long, or the line was lost. Checking again takes the old place back.
      const lost = place.status === "none" && !join;
      join = place.status === "none";
      failures = 0;
      fail(undefined);
      if (!lost) show(place);
      if (place.status === "active") return;
      pause = lost ? 0 : clampPoll(place.nextPoll);
    } catch (failure) {
      if (signal.aborted || follow(failure)) return;
      fail(failure);
      if (!(failure instanceof Problem) || !failure.temporary) return;
      pause = backoff(++failures, failure.retryAfter);
    }
    await clock.wait(pause, signal);
  }
}

/** Where the visitor's turn is spent. */
async function entrance(): Promise<string> {
  try {
    const event = await call<SaleEvent>("GET", `/events/${eventId}`);
    return `/events/${eventId}/${event.seating === "ASSIGNED" ? "seats" : "book"}`;
  } catch {
    return `/events/${eventId}`;
  }
}

function Figures({ place }: { place: Place }) {
  const inside = { n: formatNumber(place.currentUsers), max: formatNumber(place.threshold) };
  return (
    <>
      <p class="big">
        <span class="label">{t.position}</span>
        <strong id="position">{formatNumber(place.position)}</strong>
      </p>
      <dl class="figures">
        <div>
          <dt>{t.ahead}</dt>
          <dd>{formatNumber(place.peopleAhead)}</dd>
        </div>
        <div>
          <dt>{t.behind}</dt>
          <dd>{formatNumber(place.peopleBehind)}</dd>
        </div>
        <div>
          <dt>{t.wait}</dt>
          <dd>{waitText(place.estimatedWait)}</dd>
        </div>
        <div>
          <dt>{t.inside}</dt>
          <dd>{fill(t.insideValue, inside)}</dd>
        </div>
      </dl>
    </>
  );
}

function describe(place: Place): string {
  return fill(t.status, { position: formatNumber(place.position), wait: waitText(place.estimatedWait) });
}

/** What is read out: the place, but not at every poll. */
function useSpoken(place: Place | undefined): string {
  const [spoken, setSpoken] = useState("");
  const last = useRef(0);
  useEffect(() => {
    if (place?.status !== "queued" || Date.now() - last.current < announceMs) return;
    last.current = Date.now();
    setSpoken(describe(place));
  }, [place]);
  return spoken;
}

function Queue() {
  const [round, setRound] = useState(0);
  const [place, setPlace] = useState<Place>();
  const [failure, setFailure] = useState<unknown>();
  const [left, setLeft] = useState(false);
  const abort = useRef<AbortController>(undefined);
  const spoken = useSpoken(place);
  useMainFocus(left);

  useEffect(() => {
    const controller = new AbortController();
    abort.current = controller;
    void follower(setPlace, setFailure, controller.signal);
    return () => controller.abort();
  }, [round]);
  useEffect(() => {
    if (place?.eventTitle) setHeading(place.eventTitle);
    if (place?.status === "queued") document.title = `${formatNumber(place.position)} · ${t.title}`;
    if (place?.status === "active") void entrance().then((path) => location.replace(path));
  }, [place]);

  const again = () => {
    setLeft(false);
    setPlace(undefined);
    setFailure(undefined);
    setRound((n) => n + 1);
  };
  const leave = async () => {
    if (!confirm(t.leaveSure)) return;
    abort.current?.abort();
    try {
      await line.leave();
      setLeft(true);
    } catch (cause) {
      setFailure(cause);
      setRound((n) => n + 1);
    }
  };

  if (left) return <Left again={again} />;
  const final = failure instanceof Problem && !failure.temporary;
  return (
    <div class="card room">
      {failure !== undefined && <Failure failure={failure} retry={final ? again : undefined} />}
      {!place && failure === undefined && <Notice>{t.joining}</Notice>}
      {place?.status === "active" && <Notice tone="good">{t.active}</Notice>}
      {place?.status === "queued" && (
        <>
          {place.artistName && <p class="lead">{place.artistName}</p>}
          <Figures place={place} />
          <p class="muted">{t.keep}</p>
          <p>
            <button type="button" class="quiet" onClick={() => void leave()}>
              {t.leave}
            </button>
          </p>
        </>
      )}
      {place?.status === "none" && <Loading />}
      <Announce text={spoken} />
    </div>
  );
}

function Left({ again }: { again: () => void }) {
  const common = strings("common");
  return (
    <div class="card">
      <Notice>{t.left}</Notice>
      <p class="actions">
        <button type="button" onClick={again}>
          {t.rejoin}
        </button>
        <a href={`/events/${eventId}`}>{common.toEvent}</a>
      </p>
    </div>
  );
}

start(Queue);
