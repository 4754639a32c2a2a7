// A sale: what, when, where, and the link to the line.

import { formatMoney, formatNumber } from "../lib/format";
import { onward } from "../lib/onward";
import { fill, pathPart, strings } from "../lib/page";
import { cancellationFees, refundTerms } from "../lib/refund";
import { PostponedNotice, readEvent, SaleNotice, untilChange, useOpening } from "../lib/sale";
import { isOver } from "../lib/standing";
import { start } from "../lib/start";
import type { SaleEvent } from "../lib/types";
import { NotLoaded, useHeading, useLoad } from "../lib/ui";
import { formatEventTime, formatEventTimes, zoneName, zoneUnknown } from "../lib/zone";
import { PresaleStanding, PresaleTerms } from "../presale/presale";

const t = strings("event");
const common = strings("common");
const eventId = pathPart(1);

function Sections({ event }: { event: SaleEvent }) {
  return (
    <section class="card" aria-labelledby="sections">
      <h2 id="sections">{t.sections}</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">{t.sectionName}</th>
            <th scope="col" class="number">
              {common.price}
            </th>
            <th scope="col" class="number">
              {t.capacity}
            </th>
            <th scope="col" class="number">
              {t.available}
            </th>
          </tr>
        </thead>
        <tbody>
          {event.sections.map((s) => (
            <tr key={s.section}>
              <th scope="row">{s.section}</th>
              <td class="number">
                {formatMoney(s.price, event.currency)}
                {s.fee > 0 && <p class="muted">{fill(t.fee, { fee: formatMoney(s.fee, event.currency) })}</p>}
              </td>
              <td class="number">{formatNumber(s.capacity)}</td>
              <td class="number">{formatNumber(s.free)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Facts({ event }: { event: SaleEvent }) {
  return (
    <dl class="facts">
      <div>
        <dt>{t.when}</dt>
        <dd>
          <time dateTime={event.startsAt}>{formatEventTime(event.timeZone, event.startsAt)}</time>
          <p class="muted">{fill(zoneUnknown(event.timeZone) ? t.zone : t.eventZone, { zone: zoneName(event.timeZone, event.startsAt) })}</p>
        </dd>
      </div>
      {event.venue && (
        <div>
          <dt>{t.where}</dt>
          <dd dir="auto">{event.venue}</dd>
        </div>
      )}
      <div>
        <dt>{t.sale}</dt>
        <dd>{formatEventTimes(event.timeZone, event.salesOpenAt, event.salesCloseAt)}</dd>
      </div>
      {event.presale && (
        <div>
          <dt>{t.presale}</dt>
          <dd>
            <PresaleTerms event={event} presale={event.presale} />
          </dd>
        </div>
      )}
      {event.doorsAt && (
        <div>
          <dt>{t.doors}</dt>
          <dd>{formatEventTime(event.timeZone, event.doorsAt)}</dd>
        </div>
      )}
      <div>
        <dt>{t.refunds}</dt>
        <dd>
          {refundTerms(event)}
          {cancellationFees(event).map((line) => <p key={line} class="muted">{line}</p>)}
        </dd>
      </div>
      <div>
        <dt>{t.passing}</dt>
        <dd>{t[event.transferable]}</dd>
      </div>
      <div>
        <dt>{t.limit}</dt>
        <dd>{fill(t.limitValue, { n: event.maxPerUser })}</dd>
      </div>
    </dl>
  );
}

/**
 * The link to the line. It is shown before the sale too: places are taken then, and visitors who
 * know the URL of the line would get ahead otherwise.
 */
function LineLink({ event }: { event: SaleEvent }) {
  const early = event.status === "SCHEDULED" || event.status === "PRESALE";
  const turn = event.seating === "GENERAL" ? t.enterHelpStanding : t.enterHelp;
  return (
    <>
      <p>
        <a class="button wide" href={onward(`/queue/${event.eventId}`)}>
          {early ? t.enterEarly : t.enter}
        </a>
      </p>
      <p class="muted">{early ? fill(t.enterEarlyHelp, { time: formatEventTime(event.timeZone, event.salesOpenAt) }) : turn}</p>
    </>
  );
}

function Entrance({ event: known }: { event: SaleEvent }) {
  const event = useOpening(known);
  const over = isOver(event.status);
  return (
    <section class="card enter" aria-labelledby="tickets">
      <h2 id="tickets">{t.tickets}</h2>
      <PostponedNotice event={event} />
      <SaleNotice status={event.status} event={event} />
      {event.waitingRoom?.active && !over && <p>{t.waitingRoom}</p>}
      {(event.status === "SCHEDULED" || event.status === "PRESALE") && event.presale && (
        <PresaleStanding event={event} presale={event.presale} />
      )}
      {!over && <LineLink event={event} />}
    </section>
  );
}

function Event() {
  const loaded = useLoad((signal) => readEvent(eventId, signal), (event) => untilChange(event, 30));
  useHeading(loaded.state === "ready" ? loaded.value.title : "");
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  const event = loaded.value;
  return (
    <>
      {event.artist && <p class="lead" dir="auto">{event.artist}</p>}
      <div class="columns event">
        <Facts event={event} />
        <Entrance event={event} />
        <Sections event={event} />
      </div>
    </>
  );
}

start(Event);
