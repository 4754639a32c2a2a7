// Chooses seats on the map or from the list, and holds them.

import { useMemo, useState } from "preact/hooks";
import { call, follow, once, Problem } from "../lib/api";
import { formatMoney } from "../lib/format";
import { setHeading } from "../lib/frame";
import { useAvailability } from "../lib/availability";
import { HeldNotice, readHeld, useHeld } from "../lib/held";
import { Line } from "../lib/line";
import { onward } from "../lib/onward";
import { bySeat } from "../lib/order";
import { fill, pathPart, strings } from "../lib/page";
import { PostponedNotice, priceOf, readEvent, SaleNotice, useSale } from "../lib/sale";
import { start } from "../lib/start";
import { enter, TurnBar, useTurn } from "../lib/turn";
import type { Reservation, SaleEvent, SeatMap } from "../lib/types";
import { Announce, Failure, Loading, NotLoaded, useLoad } from "../lib/ui";
import { forgetChoice, useChoice } from "../seats/choice";
import { Layout } from "../seats/layout";
import { SeatList } from "../seats/list";
import { SeatMapView } from "../seats/map";
import { seatName, Selection } from "../seats/selection";
import { Standing } from "../seats/standing";

const t = strings("seats");
const eventId = pathPart(1);
const line = new Line(eventId);

interface Opened {
  event: SaleEvent;
  map: SeatMap;
  held: Reservation | undefined;
}

async function load(signal: AbortSignal): Promise<Opened> {
  await enter(line, signal);
  const [event, map, held] = await Promise.all([
    readEvent(eventId, signal),
    call<SeatMap>("GET", `/seats/${eventId}`, { signal, headers: line.headers() }),
    readHeld(eventId, signal),
  ]);
  if (event.seating === "GENERAL") location.replace(onward(`/events/${eventId}/book`));
  setHeading(event.title);
  return { event, map: { ...map, sections: map.sections.filter((s) => s.rows.length > 0) }, held };
}

function Seats() {
  const loaded = useLoad(load);
  const turn = useTurn(line, loaded.state === "ready");
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  if (loaded.value.event.seating === "GENERAL") return <Loading />;
  return (
    <TurnBar turn={turn} eventId={eventId}>
      <Hall {...loaded.value} />
    </TurnBar>
  );
}

function Hall({ event: opened, map, held: first }: Opened) {
  const layout = useMemo(() => new Layout(map), [map]);
  const [message, setMessage] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const event = useSale(opened);
  const names = (indices: number[]) => indices.map((i) => layout.seat(i)).sort(bySeat).map(seatName).join(", ");
  const availability = useAvailability(line);
  const { held, again } = useHeld(eventId, first);
  const { free, chosen, setChosen } = useChoice(layout, availability.now, (gone) => {
    if (!busy) setMessage(fill(t.gone, { seats: names(gone) }));
  });

  const remove = (index: number) => {
    setChosen(new Set([...chosen].filter((i) => i !== index)));
    setMessage(fill(t.removed, { seat: names([index]) }));
  };
  const pick = (index: number) => {
    if (busy || !free) return;
    setFailure(undefined);
    if (chosen.has(index)) return remove(index);
    if (!free[index]) return setMessage(describe(index));
    if (chosen.size >= event.maxPerUser) return setMessage(fill(t.full, { n: event.maxPerUser }));
    setChosen(new Set([...chosen, index]));
    setMessage(fill(t.added, { seat: names([index]) }));
  };
  const describe = (index: number): string => {
    const seat = layout.seat(index);
    const state = chosen.has(index) ? t.chosen : free?.[index] ? t.free : t.taken;
    return fill(t.seatStatus, { seat: seatName(seat), price: formatMoney(priceOf(event, seat.section), event.currency), state });
  };
  const hold = async (path: string, body: object) => {
    setBusy(true);
    setFailure(undefined);
    try {
      const made = await once<Reservation>("POST", path, { body: { eventId, ...body }, headers: line.headers() });
      forgetChoice(eventId);
      location.assign(`/checkout/${made.reservationId}`);
    } catch (cause) {
      if (follow(cause)) return;
      setBusy(false);
      setFailure(cause);
      const taken = new Set(cause instanceof Problem ? cause.body.seatIds?.map((id) => layout.indexOf(id)) : []);
      setChosen(new Set([...chosen].filter((i) => !taken.has(i))));
      availability.refresh();
      again();
    }
  };

  const holdSeats = () => void hold("/seats/reserve", { seatIds: [...chosen].map((i) => layout.seat(i).seatId) });
  const standing = (availability.now?.sections ?? event.sections).filter((s) => s.seating === "GENERAL");
  const seats = [...chosen].map((index) => ({ index, seat: layout.seat(index) }));
  seats.sort((a, b) => bySeat(a.seat, b.seat));
  const soldOut = free !== undefined && seats.length === 0 && !free.includes(1) && !standing.some((s) => s.free > 0);
  return (
    <div class="columns hall">
      <div>
        <HeldNotice held={held} />
        <PostponedNotice event={event} />
        <SaleNotice status={soldOut && event.status === "ON_SALE" ? "SOLD_OUT" : event.status} event={event} />
        {availability.failure !== undefined && <Failure failure={availability.failure} retrying />}
        <SeatMapView event={event} layout={layout} free={free} chosen={chosen} pick={pick} describe={describe} />
        <p class="said" role="status" aria-live="polite">
          {message}
        </p>
      </div>
      <Selection event={event} seats={seats} busy={busy} failure={failure} remove={remove} hold={holdSeats} />
      {standing.length > 0 && (
        <Standing
          event={event}
          sections={standing}
          busy={busy}
          hold={(section, quantity) => void hold("/reservations", { section, quantity })}
        />
      )}
      <SeatList event={event} map={map} layout={layout} free={free} chosen={chosen} pick={pick} />
      <Announce text={busy ? t.holding : ""} />
    </div>
  );
}

start(Seats);
