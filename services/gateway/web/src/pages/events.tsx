// The list of sales.

import { formatMoney } from "../lib/format";
import { fill, strings } from "../lib/page";
import { Paged } from "../lib/paged";
import { start } from "../lib/start";
import type { SaleEvent } from "../lib/types";
import { formatEventTime } from "../lib/zone";

const t = strings("events");

function Card({ event }: { event: SaleEvent }) {
  const prices = [...new Set(event.sections.map((s) => s.price))];
  const price = formatMoney(Math.min(...prices), event.currency);
  return (
    <li class="card event-card">
      <p class={`badge ${event.status === "ON_SALE" ? "good" : ""}`}>{t[event.status] ?? event.status}</p>
      <h2>
        <a href={`/events/${event.eventId}`}>{event.title}</a>
      </h2>
      {event.artist && <p>{event.artist}</p>}
      <p class="muted">
        <time dateTime={event.startsAt}>{formatEventTime(event.timeZone, event.startsAt)}</time>
        {event.venue && ` · ${event.venue}`}
      </p>
      {event.status === "SCHEDULED" && (
        <p class="muted">
          {t.opens}: <time dateTime={event.salesOpenAt}>{formatEventTime(event.timeZone, event.salesOpenAt)}</time>
        </p>
      )}
      {prices.length > 0 && <p>{prices.length > 1 ? fill(t.from, { price }) : price}</p>}
    </li>
  );
}

function Events() {
  return <Paged<SaleEvent> path="/events" none={t.none} item={(event) => <Card key={event.eventId} event={event} />} />;
}

start(Events);
