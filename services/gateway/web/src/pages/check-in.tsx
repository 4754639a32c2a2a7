// Check-in at a door with a network: type or paste the code of a ticket.

import { useRef, useState } from "preact/hooks";
import { call, follow, Problem } from "../lib/api";
import { formatNumber, formatTime } from "../lib/format";
import { fill, strings } from "../lib/page";
import { start } from "../lib/start";
import type { CheckedIn, DoorCounts, List, SaleEvent } from "../lib/types";
import { Failure, Notice, NotLoaded, useLoad } from "../lib/ui";
import { formatEventTime } from "../lib/zone";

const t = strings("check-in");
const common = strings("common");

// The API's maximum. The event of an older one can be named in the address.
const maxEvents = 100;
const countsEvery = 5;

type Outcome =
  | { kind: "admitted"; scan: CheckedIn }
  | { kind: "undone"; scan: CheckedIn }
  | { kind: "refused"; problem: Problem }
  | { kind: "failed"; failure: unknown };

const seatText = (section: string, row: string, number: string | number): string => fill(common.seat, { section, row, number });

/** The place in a refusal, whose seat is section-row-number. */
function placeOf(problem: Problem): string {
  const [section = "", row = "", number = ""] = (problem.body.seatId ?? "").split("-");
  if (number) return seatText(section, row, number);
  return problem.body.section ? fill(common.section, { section: problem.body.section }) : "";
}

function Admission({ scan }: { scan: CheckedIn }) {
  const seat = scan.seat;
  return (
    <>
      <p class="result">
        {seat ? seatText(seat.section, seat.row, seat.number) : fill(common.section, { section: scan.section })}
      </p>
      {scan.name && (
        <p>
          {t.name} <bdi>{scan.name}</bdi>
        </p>
      )}
    </>
  );
}

function Refusal({ problem }: { problem: Problem }) {
  const used = problem.code === "ALREADY_USED";
  const { usedAt, deviceId, why = "" } = problem.body;
  const reasons: Record<string, string> = t;
  return (
    <Notice tone={used ? "warn" : "bad"}>
      <p class="result">{used ? t.used : t.refused}</p>
      {placeOf(problem) && <p class="result">{placeOf(problem)}</p>}
      {used && usedAt && <p>{fill(deviceId ? t.usedThere : t.usedAt, { time: formatTime(usedAt), door: deviceId ?? "" })}</p>}
      {!used && <p>{reasons[why] ?? why}</p>}
    </Notice>
  );
}

function Result({ outcome, undo }: { outcome: Outcome; undo: (scan: CheckedIn) => void }) {
  switch (outcome.kind) {
    case "admitted":
      return (
        <Notice tone={outcome.scan.disputed ? "warn" : "good"}>
          <p class="result">{t.admitted}</p>
          <Admission scan={outcome.scan} />
          {outcome.scan.disputed && <p id="disputed">{t.disputed}</p>}
          <button type="button" class="quiet" id="undo" onClick={() => undo(outcome.scan)}>
            {t.undo}
          </button>
        </Notice>
      );
    case "undone":
      return (
        <Notice>
          <p class="result">{t.undone}</p>
          <Admission scan={outcome.scan} />
        </Notice>
      );
    case "refused":
      return <Refusal problem={outcome.problem} />;
    case "failed":
      return <Failure failure={outcome.failure} />;
  }
}

/** How many are in, read again and again. */
function Counts({ eventId }: { eventId: string }) {
  const counts = useLoad(
    (signal) => call<DoorCounts>("GET", `/check-in/${encodeURIComponent(eventId)}`, { signal }),
    () => countsEvery,
  );
  if (counts.state !== "ready") return <NotLoaded loaded={counts} />;
  const { sold, checkedIn, conflicts } = counts.value;
  return (
    <p id="counts">
      {fill(t.counts, { in: formatNumber(checkedIn), sold: formatNumber(sold) })}
      {conflicts > 0 && <> · {fill(t.conflicts, { n: formatNumber(conflicts) })}</>}
    </p>
  );
}

function Door({ eventId, door }: { eventId: string; door: string }) {
  const [outcome, setOutcome] = useState<Outcome>();
  const [busy, setBusy] = useState(false);
  const code = useRef<HTMLInputElement>(null);
  const path = "/check-in";
  const act = async (attempt: () => Promise<Outcome>) => {
    setBusy(true);
    try {
      setOutcome(await attempt());
    } catch (cause) {
      if (follow(cause)) return;
      const refused = cause instanceof Problem && ["ALREADY_USED", "NOT_VALID"].includes(cause.code);
      setOutcome(refused ? { kind: "refused", problem: cause } : { kind: "failed", failure: cause });
    }
    setBusy(false);
    if (code.current) {
      code.current.value = "";
      code.current.focus();
    }
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const body = { eventId, code: code.current?.value.trim() ?? "", deviceId: door };
    void act(async () => ({ kind: "admitted", scan: await call<CheckedIn>("POST", path, { body }) }));
  };
  const undo = (scan: CheckedIn) => {
    const body = { scanId: scan.scanId };
    void act(async () => ({
      kind: "undone",
      scan: await call<CheckedIn>("POST", `${path}/${encodeURIComponent(eventId)}/undo`, { body }),
    }));
  };
  return (
    <>
      <form class="card" onSubmit={submit}>
        <label for="code">{t.code}</label>
        <input ref={code} id="code" required maxLength={512} autocomplete="off" autocapitalize="none" spellcheck={false} />
        <button type="submit" disabled={busy}>
          {t.submit}
        </button>
      </form>
      {outcome && <Result outcome={outcome} undo={undo} />}
    </>
  );
}

/** The event and the name of the door are in the address, so that a reload keeps them. */
function useAddress(name: string): [string, (value: string) => void] {
  const [value, setValue] = useState(new URLSearchParams(location.search).get(name) ?? "");
  const set = (next: string) => {
    const query = new URLSearchParams(location.search);
    query.set(name, next);
    history.replaceState(null, "", `?${query}`);
    setValue(next);
  };
  return [value, set];
}

function CheckIn() {
  const events = useLoad((signal) => call<List<SaleEvent>>("GET", `/events?limit=${maxEvents}`, { signal }));
  const [eventId, setEvent] = useAddress("event");
  const [door, setDoor] = useAddress("door");
  if (events.state !== "ready") return <NotLoaded loaded={events} />;
  const items = events.value.items;
  return (
    <div class="narrow">
      <label for="event">{t.event}</label>
      <select id="event" value={eventId} onChange={(e) => setEvent(e.currentTarget.value)}>
        {!eventId && <option value="">{t.choose}</option>}
        {eventId && !items.some((event) => event.eventId === eventId) && <option value={eventId}>{eventId}</option>}
        {items.map((event) => (
          <option key={event.eventId} value={event.eventId}>
            {event.title} · {formatEventTime(event.timeZone, event.startsAt)}
          </option>
        ))}
      </select>
      <label for="door">{t.door}</label>
      <input
        id="door"
        value={door}
        maxLength={64}
        pattern="[A-Za-z0-9 ._\-]*"
        title={t.doorPattern}
        autocomplete="off"
        onChange={(e) => e.currentTarget.reportValidity() && setDoor(e.currentTarget.value)}
      />
      {eventId && <Door key={eventId} eventId={eventId} door={door} />}
      {eventId && <Counts key={`counts ${eventId}`} eventId={eventId} />}
    </div>
  );
}

start(CheckIn);
