// Booking of general admissions, or of the best seats of a section.

import { useState } from "preact/hooks";
import { follow, once } from "../lib/api";
import { formatMoney, formatNumber } from "../lib/format";
import { setHeading } from "../lib/frame";
import { useAvailability } from "../lib/availability";
import { HeldNotice, readHeld, useHeld } from "../lib/held";
import { Line } from "../lib/line";
import { onward } from "../lib/onward";
import { fill, pathPart, strings } from "../lib/page";
import { buyable, PostponedNotice, readEvent, SaleNotice, useSale } from "../lib/sale";
import { start } from "../lib/start";
import { enter, TurnBar, useTurn } from "../lib/turn";
import type { Reservation, SaleEvent, Section } from "../lib/types";
import { Failure, NotLoaded, useLoad } from "../lib/ui";

const t = strings("book");
const common = strings("common");
const eventId = pathPart(1);
const line = new Line(eventId);

interface Opened {
  event: SaleEvent;
  held: Reservation | undefined;
}

async function load(signal: AbortSignal): Promise<Opened> {
  await enter(line, signal);
  const [event, held] = await Promise.all([readEvent(eventId, signal), readHeld(eventId, signal)]);
  setHeading(event.title);
  return { event, held };
}

function Book() {
  const loaded = useLoad(load);
  const turn = useTurn(line, loaded.state === "ready");
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  return (
    <TurnBar turn={turn} eventId={eventId}>
      <Choice {...loaded.value} />
    </TurnBar>
  );
}

interface SectionsProps {
  sections: Section[];
  currency: string;
  chosen: string;
  choose: (section: string) => void;
}

function Sections({ sections, currency, chosen, choose }: SectionsProps) {
  return (
    <fieldset>
      <legend>{t.section}</legend>
      {sections.map((s) => (
        <label class="choice" key={s.section}>
          <input
            type="radio"
            name="section"
            value={s.section}
            required
            disabled={s.free === 0}
            checked={chosen === s.section}
            onChange={() => choose(s.section)}
          />
          <span class="grow">{fill(common.section, { section: s.section })}</span>
          <span>{formatMoney(s.price, currency)}</span>
          <span class="muted">{s.free === 0 ? t.soldOut : fill(common.free, { n: formatNumber(s.free) })}</span>
        </label>
      ))}
    </fieldset>
  );
}

function Choice({ event: opened, held: first }: Opened) {
  const event = useSale(opened);
  const availability = useAvailability(line);
  const { held, again } = useHeld(eventId, first);
  const [selected, setSelected] = useState("");
  const [quantity, setQuantity] = useState(1);
  const [adjacent, setAdjacent] = useState(true);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const assigned = event.seating === "ASSIGNED";
  const sections = availability.now?.sections ?? event.sections;
  const left = sections.filter((s) => s.free > 0);
  // The selected section may be sold out by now.
  const section = left.find((s) => s.section === selected) ?? left[0];

  const submit = async (submitted: SubmitEvent) => {
    submitted.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      const body = { eventId, section: section?.section, quantity, ...(assigned ? { adjacent } : {}) };
      const made = await once<Reservation>("POST", "/reservations", { body, headers: line.headers() });
      location.assign(`/checkout/${made.reservationId}`);
    } catch (cause) {
      if (follow(cause)) return;
      setFailure(cause);
      setBusy(false);
      availability.refresh();
      again();
    }
  };

  return (
    <form class="card narrow" onSubmit={(submitted) => void submit(submitted)}>
      <HeldNotice held={held} />
      <PostponedNotice event={event} />
      <SaleNotice status={!section && event.status === "ON_SALE" ? "SOLD_OUT" : event.status} event={event} />
      {availability.failure !== undefined && <Failure failure={availability.failure} retrying />}
      <Sections sections={sections} currency={event.currency} chosen={section?.section ?? ""} choose={setSelected} />
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
      {section && (
        <p class="sum">
          {common.total} <strong>{formatMoney(section.price * quantity, event.currency)}</strong>
        </p>
      )}
      {failure !== undefined && <Failure failure={failure} />}
      <p class="actions">
        <button type="submit" disabled={busy || !section || !buyable(event)}>
          {busy ? t.holding : t.hold}
        </button>
        {assigned && <a href={onward(`/events/${eventId}/seats`)}>{t.map}</a>}
      </p>
    </form>
  );
}

start(Book);
