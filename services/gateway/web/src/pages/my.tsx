// The reservations, tickets, requests and rewards of the visitor.

import { useState } from "preact/hooks";
import { About } from "../lib/about";
import { call, follow } from "../lib/api";
import { Copy } from "../lib/copy";
import { formatMoney, formatTime } from "../lib/format";
import { bySeat, groupByReservation, placeOf } from "../lib/order";
import { fill, page, strings } from "../lib/page";
import { Paged } from "../lib/paged";
import { PromotionName, RequestBadge, requestText, Timeline } from "../lib/request";
import { CampaignName, rewardText, StatusBadge } from "../lib/reward";
import { start } from "../lib/start";
import type { EventRequest, Reservation, Reward, Ticket } from "../lib/types";
import { Announce, Failure, NotLoaded, useLoad } from "../lib/ui";
import { Passing } from "../transfers/passing";

const t = strings("my");
const common = strings("common");
const words = strings("reward");
const requests = strings("request");

interface TicketProps {
  ticket: Ticket;
  reload: (announcement: string) => void;
}

function TicketCard({ ticket, reload }: TicketProps) {
  const place = placeOf(ticket);
  return (
    <li class="card">
      <p class={`badge ${ticket.status === "VALID" ? "good" : ""}`}>{t[ticket.status] ?? ticket.status}</p>
      <About eventId={ticket.eventId} />
      <p>{place}</p>
      {ticket.paymentId && (
        <p>
          <a href={`/orders/${ticket.paymentId}`}>{ticket.refundable.reason ? t.toOrder : t.toRefund}</a>
        </p>
      )}
      {/* Only a ticket that admits its holder has a code. */}
      {ticket.code && <Code code={ticket.code} ticketId={ticket.ticketId} place={place} />}
      <Passing ticket={ticket} reload={reload} />
    </li>
  );
}

function Code({ code, ticketId, place }: { code: string; ticketId: string; place: string }) {
  return (
    <details>
      <summary>{t.code}</summary>
      <p class="muted">{t.codeHelp}</p>
      <figure class="qr">
        {/* Loaded once the details are open. */}
        <img src={`/api/v1/my/tickets/${ticketId}/qr.svg`} alt={t.qr} loading="lazy" width="320" height="320" />
        <figcaption>{place}</figcaption>
      </figure>
      <p>
        <code class="code">{code}</code>
      </p>
      <Copy text={code} label={t.copy} done={t.copied} />
    </details>
  );
}

function ReservationCard({ reservation, reload }: { reservation: Reservation; reload: (announcement: string) => void }) {
  const [failure, setFailure] = useState<unknown>();
  const held = reservation.status === "HELD";
  const unpaid = held || reservation.status === "PAYING";
  const cancel = async () => {
    if (!confirm(t.cancelSure)) return;
    try {
      await call<void>("DELETE", `/my/reservations/${reservation.reservationId}`);
      reload(t.cancelled);
    } catch (cause) {
      if (!follow(cause)) setFailure(cause);
    }
  };
  return (
    <li class="card">
      <p class={`badge ${reservation.status === "CONFIRMED" ? "good" : ""}`}>{t[reservation.status] ?? reservation.status}</p>
      <About eventId={reservation.eventId} />
      <ul class="plain">
        {[...reservation.seats].sort(bySeat).map((seat) => (
          <li key={seat.seatId}>{fill(common.seat, { section: seat.section, row: seat.row, number: seat.number })}</li>
        ))}
        {reservation.seats.length === 0 && (
          <li>{fill(common.general, { section: reservation.section, quantity: reservation.quantity })}</li>
        )}
      </ul>
      <p>{formatMoney(reservation.amount, reservation.currency)}</p>
      <p class="muted">
        {held
          ? fill(t.until, { time: formatTime(reservation.expiresAt) })
          : fill(t.reserved, { time: formatTime(reservation.createdAt) })}
      </p>
      {failure !== undefined && <Failure failure={failure} />}
      {unpaid && (
        <p class="actions">
          <a class="button" href={`/checkout/${reservation.reservationId}`}>
            {held ? common.toPayment : t.toProgress}
          </a>
          {held && (
            <button type="button" class="quiet" onClick={() => void cancel()}>
              {t.cancel}
            </button>
          )}
        </p>
      )}
    </li>
  );
}

function RewardCard({ reward }: { reward: Reward }) {
  return (
    <li class="card">
      <StatusBadge status={reward.status} />
      <h3>{rewardText(reward)}</h3>
      <p>{words[reward.reason] ?? reward.reason}</p>
      <p class="muted">
        <CampaignName eventId={reward.eventId} /> · {fill(t.earned, { time: formatTime(reward.createdAt) })}
      </p>
    </li>
  );
}

function RequestCard({ request }: { request: EventRequest }) {
  return (
    <li class="card">
      <RequestBadge request={request} />
      <h3>
        <PromotionName eventId={request.eventId} />
      </h3>
      <p>{requestText(request)}</p>
      <p class="muted">{fill(requests.requested, { time: formatTime(new Date(request.requestedAt).toISOString()) })}</p>
      <Timeline key={request.uiResult} requestId={request.requestId} />
    </li>
  );
}

/** Makes the tickets of a link the visitor's own; the claim is the fragment of the page's URL. */
async function claim(signal: AbortSignal): Promise<void> {
  const found = location.hash.startsWith("#/") ? location.hash.slice(2) : "";
  if (found === "") return;
  await call<object>("POST", "/my/tickets/claim", { body: { claim: found }, signal });
  history.replaceState(null, "", location.pathname);
}

function My() {
  const [announcement, setAnnouncement] = useState("");
  const claimed = useLoad(claim);
  const announced = (reload: () => void) => (text: string) => {
    setAnnouncement(text);
    reload();
  };
  if (claimed.state !== "ready") return <NotLoaded loaded={claimed} />;
  return (
    <>
      <section aria-labelledby="tickets">
        <h2 id="tickets">{t.tickets}</h2>
        <Paged<Ticket>
          path="/my/tickets"
          none={t.noTickets}
          order={groupByReservation}
          item={(ticket, reload) => <TicketCard key={ticket.ticketId} ticket={ticket} reload={announced(reload)} />}
        />
        <p>
          <a href="/transfers">{t.toTransfers}</a> · <a href="/memberships">{t.toMemberships}</a>
        </p>
      </section>
      <section aria-labelledby="reservations">
        <h2 id="reservations">{t.reservations}</h2>
        <Paged<Reservation>
          path="/my/reservations"
          none={t.noReservations}
          item={(reservation, reload) => (
            <ReservationCard
              key={reservation.reservationId}
              reservation={reservation}
              reload={announced(reload)}
            />
          )}
        />
      </section>
      {page.promotions && (
        <section aria-labelledby="requests">
          <h2 id="requests">{t.requests}</h2>
          <Paged<EventRequest>
            path="/my/requests"
            none={t.noRequests}
            item={(request) => <RequestCard key={request.requestId} request={request} />}
          />
        </section>
      )}
      {page.rewards && (
        <section aria-labelledby="rewards">
          <h2 id="rewards">{t.rewards}</h2>
          <Paged<Reward>
            path="/my/rewards"
            none={t.noRewards}
            item={(reward) => <RewardCard key={reward.allocationId} reward={reward} />}
          />
        </section>
      )}
      <Announce text={announcement} />
    </>
  );
}

start(My);
