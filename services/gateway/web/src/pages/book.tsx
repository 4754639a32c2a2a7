// General admission, or the best seats of a section.

import { useState } from "preact/hooks";
import { call, follow } from "../lib/api";
import { formatMoney, formatNumber } from "../lib/format";
import { Line } from "../lib/line";
import { fill, pathPart, strings } from "../lib/page";
import { start } from "../lib/start";
import { enter, TurnBar, useTurn } from "../lib/turn";
import type { Reservation, SaleEvent } from "../lib/types";
import { Failure, Loading, useLoad } from "../lib/ui";

const t = strings("book");
const common = strings("common");
const eventId = pathPart(1);
const line = new Line(eventId);

async function load(signal: AbortSignal): Promise<SaleEvent> {
  await enter(line, signal);
  return call<SaleEvent>("GET", `/events/${eventId}`, { signal });
}

function Book() {
  const loaded = useLoad(load);
  const turn = useTurn(line, loaded.state === "ready");
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "failed") return <Failure failure={loaded.failure} retry={loaded.reload} />;
  return (
    <TurnBar turn={turn} eventId={eventId}>
      <Choice event={loaded.value} />
    </TurnBar>
  );
}

/** Reads the numbers again after a refusal: what was free when the page was opened is long gone. */
async function freshSections(event: SaleEvent): Promise<SaleEvent> {
  try {
    return await call<SaleEvent>("GET", `/events/${eventId}`);
  } catch {
    return event;
  }
}

function Choice({ event: opened }: { event: SaleEvent }) {
  const [event, setEvent] = useState(opened);
  const [section, setSection] = useState(event.sections.find((s) => s.free > 0)?.section ?? "");
  const [quantity, setQuantity] = useState(1);
  const [adjacent, setAdjacent] = useState(true);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const assigned = event.seating === "ASSIGNED";
  const price = event.sections.find((s) => s.section === section)?.price ?? 0;

  const submit = async (submitted: SubmitEvent) => {
    submitted.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      const body = { eventId, section, quantity, ...(assigned ? { adjacent } : {}) };
      const held = await call<Reservation>("POST", "/reservations", { body, headers: line.headers() });
      location.assign(`/checkout/${held.reservationId}`);
    } catch (cause) {
      if (follow(cause)) return;
      setFailure(cause);
      setEvent(await freshSections(event));
      setBusy(false);
    }
  };

  return (
    <form class="card narrow" onSubmit={(submitted) => void submit(submitted)}>
      <h2>{event.title}</h2>
      <fieldset>
        <legend>{t.section}</legend>
        {event.sections.map((s) => (
          <label class="choice" key={s.section}>
            <input
              type="radio"
              name="section"
              value={s.section}
              required
              disabled={s.free === 0}
              checked={section === s.section}
              onChange={() => setSection(s.section)}
            />
            <span class="grow">{fill(common.section, { section: s.section })}</span>
            <span>{formatMoney(s.price, event.currency)}</span>
            <span class="muted">{s.free === 0 ? t.soldOut : fill(common.free, { n: formatNumber(s.free) })}</span>
          </label>
        ))}
      </fieldset>
      <label for="quantity">{t.quantity}</label>
      <select id="quantity" value={quantity} onChange={(e) => setQuantity(Number(e.currentTarget.value))}>
        {Array.from({ length: Math.min(event.maxPerUser, 100) }, (_, i) => (
          <option key={i} value={i + 1}>
            {i + 1}
          </option>
        ))}
      </select>
      {assigned && (
        <label class="choice">
          <input type="checkbox" checked={adjacent} onChange={(e) => setAdjacent(e.currentTarget.checked)} />
          {t.adjacent}
        </label>
      )}
      <p class="sum">
        {common.total} <strong>{formatMoney(price * quantity, event.currency)}</strong>
      </p>
      {failure !== undefined && <Failure failure={failure} />}
      <p class="actions">
        <button type="submit" disabled={busy || !section}>
          {busy ? t.holding : t.hold}
        </button>
        {assigned && <a href={`/events/${eventId}/seats`}>{t.map}</a>}
      </p>
    </form>
  );
}

start(Book);
