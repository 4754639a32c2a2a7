// Booking of general admissions, or of the best seats of a section.

import { useState } from "preact/hooks";
import { follow, once } from "../lib/api";
import { formatMoney } from "../lib/format";
import { setHeading } from "../lib/frame";
import { useAvailability } from "../lib/availability";
import { HeldNotice, readHeld, useHeld } from "../lib/held";
import { Line } from "../lib/line";
import { onward } from "../lib/onward";
import { pathPart, strings } from "../lib/page";
import { buyable, costOf, PostponedNotice, readEvent, SaleNotice, useSale } from "../lib/sale";
import { start } from "../lib/start";
import { enter, TurnBar, useTurn } from "../lib/turn";
import type { Reservation, SaleEvent } from "../lib/types";
import { Failure, NotLoaded, useLoad } from "../lib/ui";
import { Quantity, Sections } from "../seats/sections";

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

function Choice({ event: opened, held: first }: Opened) {
  const event = useSale(opened);
  const availability = useAvailability(line);
  const { held, again } = useHeld(eventId, first);
  const [selected, setSelected] = useState("");
  const [quantity, setQuantity] = useState(1);
  const [adjacent, setAdjacent] = useState(true);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const sections = availability.now?.sections ?? event.sections;
  const left = sections.filter((s) => s.free > 0);
  // The selected section may be sold out by now.
  const section = left.find((s) => s.section === selected) ?? left[0];
  const assigned = section?.seating === "ASSIGNED";

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
      <Quantity max={event.maxPerUser} quantity={quantity} choose={setQuantity} />
      {assigned && (
        <label class="choice">
          <input type="checkbox" checked={adjacent} onChange={(e) => setAdjacent(e.currentTarget.checked)} />
          {t.adjacent}
        </label>
      )}
      {section && (
        <p class="sum">
          {common.total} <strong>{formatMoney(costOf(section) * quantity, event.currency)}</strong>
        </p>
      )}
      {failure !== undefined && <Failure failure={failure} />}
      <p class="actions">
        <button type="submit" disabled={busy || !section || !buyable(event)}>
          {busy ? t.holding : t.hold}
        </button>
        {event.seating !== "GENERAL" && <a href={onward(`/events/${eventId}/seats`)}>{t.map}</a>}
      </p>
    </form>
  );
}

start(Book);
