// The lists of sales and promotions.

import { formatMoney, formatNumber, formatTime } from "../lib/format";
import { fill, page, strings } from "../lib/page";
import { Paged } from "../lib/paged";
import { promotionState } from "../lib/request";
import { start } from "../lib/start";
import type { Promotion, SaleEvent } from "../lib/types";
import { formatEventTime } from "../lib/zone";

const t = strings("events");
const request = strings("request");

function Card({ event }: { event: SaleEvent }) {
  const prices = [...new Set(event.sections.map((s) => s.price))];
  const price = formatMoney(Math.min(...prices), event.currency);
  return (
    <li class="card event-card">
      <p class={`badge ${event.status === "ON_SALE" ? "good" : ""}`}>{t[event.status] ?? event.status}</p>
      <h2>
        <a href={`/events/${event.eventId}`}><bdi>{event.title}</bdi></a>
      </h2>
      {event.artist && <p dir="auto">{event.artist}</p>}
      <p class="muted">
        <time dateTime={event.startsAt}>{formatEventTime(event.timeZone, event.startsAt)}</time>
        {event.venue && <> · <bdi>{event.venue}</bdi></>}
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

/** The next time that matters to somebody who thinks of applying. */
function nextTime(promotion: Promotion): [string, string] | undefined {
  if (promotion.status === "Scheduled") return [t.applyFrom, promotion.opensAt];
  if (promotion.status === "Open") return [t.applyUntil, promotion.closesAt];
  if (promotion.status === "Closed" && promotion.announcedAt) return [t.resultsAt, promotion.announcedAt];
  return undefined;
}

function PromotionCard({ promotion }: { promotion: Promotion }) {
  const lottery = promotion.eventType === "LOTTERY";
  const next = nextTime(promotion);
  return (
    <li class="card event-card">
      <p class={`badge ${promotion.status === "Open" && !promotion.paused ? "good" : ""}`}>{promotionState(promotion)}</p>
      <h3>
        <a href={`/promo/${promotion.eventId}`}><bdi>{promotion.title}</bdi></a>
      </h3>
      <p>
        {request[promotion.eventType] ?? promotion.eventType} · {fill(lottery ? t.winners : t.places, { n: formatNumber(promotion.capacityTotal) })}
      </p>
      {next && (
        <p class="muted">
          {next[0]}: <time dateTime={next[1]}>{formatTime(next[1])}</time>
        </p>
      )}
    </li>
  );
}

function Events() {
  return (
    <>
      <Paged<SaleEvent> path="/events" none={t.none} item={(event) => <Card key={event.eventId} event={event} />} />
      {page.promotions && (
        <Paged<Promotion>
          path="/promotions"
          heading={<h2>{t.promotions}</h2>}
          item={(promotion) => <PromotionCard key={promotion.eventId} promotion={promotion} />}
        />
      )}
    </>
  );
}

start(Events);
