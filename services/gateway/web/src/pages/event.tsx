// One sale: what, when, where, and the way into the line.

import { useEffect } from "preact/hooks";
import { call } from "../lib/api";
import { formatMoney, formatNumber, formatTime } from "../lib/format";
import { setHeading } from "../lib/frame";
import { fill, pathPart, strings } from "../lib/page";
import { start } from "../lib/start";
import type { SaleEvent } from "../lib/types";
import { Countdown, Failure, Loading, Notice, useLoad } from "../lib/ui";

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
              <td class="number">{formatMoney(s.price, event.currency)}</td>
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
  const range = { from: formatTime(event.salesOpenAt), to: formatTime(event.salesCloseAt) };
  return (
    <dl class="facts">
      <div>
        <dt>{t.when}</dt>
        <dd>
          <time dateTime={event.startsAt}>{formatTime(event.startsAt)}</time>
        </dd>
      </div>
      {event.venue && (
        <div>
          <dt>{t.where}</dt>
          <dd>{event.venue}</dd>
        </div>
      )}
      <div>
        <dt>{t.sale}</dt>
        <dd>{fill(t.saleRange, range)}</dd>
      </div>
      <div>
        <dt>{t.limit}</dt>
        <dd>{fill(t.limitValue, { n: event.maxPerUser })}</dd>
      </div>
    </dl>
  );
}

function Entrance({ event, reload }: { event: SaleEvent; reload: () => void }) {
  const opens = Date.parse(event.salesOpenAt);
  const [before, after = ""] = t.opensIn.split("{time}");
  const open = event.status === "ON_SALE" || event.status === "SOLD_OUT";
  return (
    <section class="card enter">
      {event.status !== "ON_SALE" && <Notice>{t[event.status] ?? event.status}</Notice>}
      {event.status === "SCHEDULED" && opens > Date.now() && (
        <p>
          {before}
          <Countdown end={opens} onOver={reload} />
          {after}
        </p>
      )}
      {event.waitingRoom?.active && <p>{t.waitingRoom}</p>}
      {(open || event.status === "SCHEDULED" || event.status === "PAUSED") && (
        <>
          <p>
            <a class="button" href={`/queue/${event.eventId}`}>
              {open ? t.enter : t.joinEarly}
            </a>
          </p>
          <p class="muted">{t.enterHelp}</p>
        </>
      )}
    </section>
  );
}

function Event() {
  const loaded = useLoad((signal) => call<SaleEvent>("GET", `/events/${encodeURIComponent(eventId)}`, { signal }));
  const title = loaded.state === "ready" ? loaded.value.title : "";
  useEffect(() => {
    if (title) setHeading(title);
  }, [title]);
  if (loaded.state === "loading") return <Loading />;
  if (loaded.state === "failed") return <Failure failure={loaded.failure} retry={loaded.reload} />;
  const event = loaded.value;
  return (
    <>
      <p class="lead">{event.artist}</p>
      <div class="columns">
        <div>
          <Facts event={event} />
          <Sections event={event} />
        </div>
        <Entrance event={event} reload={loaded.reload} />
      </div>
    </>
  );
}

start(Event);
