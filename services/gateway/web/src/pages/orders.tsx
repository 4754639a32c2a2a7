// For operators: finds orders, and shows one with all that came of it. Statuses and reasons are the words of the API, which
// logs and the documents use too.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call } from "../lib/api";
import { formatMoney, formatTime } from "../lib/format";
import { bySeat } from "../lib/order";
import type { FoundOrder, OrderDetail, OrderPayment, OrderTicket } from "../lib/orders";
import { fill, pathPart, strings } from "../lib/page";
import { Paged } from "../lib/paged";
import { start } from "../lib/start";
import { NotLoaded, Notice, useHeading, useLoad } from "../lib/ui";

const t = strings("orders");
const common = strings("common");
const orderId = pathPart(2);

const fields = ["user", "eventId", "seat", "orderId", "code", "reservationId"] as const;

/** What is given of a search. */
function given(values: Iterable<[string, FormDataEntryValue]>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of values) {
    const text = typeof value === "string" ? value.trim() : "";
    if (text && fields.some((field) => field === name)) query.set(name, text);
  }
  return query;
}

const toneOf = (status: string): string =>
  status === "CONFIRMED" || status === "VALID" || status === "DONE" ? "good" : status === "HELD" || status === "REJECTED" ? "bad" : "";

function Badge({ status, tone = toneOf(status) }: { status: string; tone?: string }) {
  return <p class={`badge ${tone}`}>{status}</p>;
}

const placesOf = (order: FoundOrder): string =>
  order.seats.length > 0
    ? [...order.seats].sort(bySeat).map((seat) => seat.seatId).join(", ")
    : fill(common.general, { section: order.section, quantity: order.quantity });

function Found({ order }: { order: FoundOrder }) {
  return (
    <li class="card">
      <Badge status={order.status} tone={order.status === "CONFIRMED" ? "good" : ""} />
      <h3>
        <a href={`/admin/orders/${order.reservationId}`}>
          <bdi>{order.userId}</bdi>
        </a>
      </h3>
      <p>{placesOf(order)}</p>
      <p>{formatMoney(order.amount, order.currency)}</p>
      <p class="muted">
        <bdi>{order.eventId}</bdi> · {formatTime(order.createdAt)}
      </p>
    </li>
  );
}

function Search() {
  const [query, setQuery] = useState(() => given(new URLSearchParams(location.search)));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const next = given(new FormData(event.currentTarget as HTMLFormElement));
    const address = new URLSearchParams(next);
    address.delete("code"); // it would admit whoever finds it in the browser's history
    history.replaceState(null, "", address.size > 0 ? `?${address}` : location.pathname);
    setQuery(next);
  };
  return (
    <>
      <form class="card narrow" onSubmit={submit}>
        {fields.map((field) => (
          <div key={field}>
            <label for={field}>{t[field]}</label>
            <input
              id={field}
              name={field}
              defaultValue={query.get(field) ?? ""}
              autocomplete="off"
              autocapitalize="none"
              spellcheck={false}
            />
          </div>
        ))}
        <p class="muted">{t.help}</p>
        <button type="submit">{t.search}</button>
      </form>
      {query.size > 0 && (
        <section aria-labelledby="found">
          <h2 id="found">{t.found}</h2>
          <Paged<FoundOrder>
            key={query.toString()}
            path={`/admin/orders?${query}`}
            none={t.none}
            item={(order) => <Found key={order.reservationId} order={order} />}
          />
        </section>
      )}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function TicketLine({ ticket, currency }: { ticket: OrderTicket; currency: string }) {
  return (
    <li>
      <Badge status={ticket.status} tone={ticket.status === "VALID" ? "good" : ""} />
      <p>
        {ticket.seatId ?? fill(common.section, { section: ticket.section })} · <bdi>{ticket.userId}</bdi> ·{" "}
        {formatMoney(ticket.paid, currency)}
        {ticket.given > 0 && <> · {fill(t.given, { amount: formatMoney(ticket.given, currency) })}</>}
        {ticket.disputed && <> · {t.disputed}</>}
        {ticket.void && (
          <>
            {" "}
            · <bdi>{ticket.void.userId}</bdi>: {ticket.void.reason}
          </>
        )}
      </p>
      <p class="muted">{ticket.ticketId}</p>
    </li>
  );
}

function Paid({ payment }: { payment: OrderPayment }) {
  const money = (amount: number) => formatMoney(amount, payment.currency);
  return (
    <li>
      <Badge status={payment.status} tone={payment.status === "CONFIRMED" ? "good" : ""} />
      <p>
        {payment.provider} · {money(payment.amount)}
        {payment.declineCode && <> · {payment.declineCode}</>}
        {payment.refunded > 0 && <> · {fill(t.given, { amount: money(payment.refunded) })}</>}
        {payment.disputedAt && <> · {t.disputed}</>}
        {payment.evidenceDueAt && <> · {fill(t.evidence, { time: formatTime(payment.evidenceDueAt) })}</>}
        {payment.warnedAt && <> · {fill(t.warned, { type: payment.fraudType })}</>}
      </p>
      {payment.byHand > 0 && (
        <p>
          {fill(t.byHand, { amount: money(payment.byHand) })}
          {payment.goodwill > 0 && <> · {fill(t.goodwill, { amount: money(payment.goodwill) })}</>}
          {payment.unassigned > 0 && <> · <strong>{fill(t.unassigned, { amount: money(payment.unassigned) })}</strong></>}
        </p>
      )}
      <p class="muted">{payment.orderId}</p>
      {payment.refunds.length > 0 && (
        <ul class="plain">
          {payment.refunds.map((refund) => (
            <li key={refund.refundId}>
              <Badge status={refund.status} />
              <p>
                {t.refund} {refund.cause} · {money(refund.amount)} {refund.reason && <>· {refund.reason}</>}
                {refund.pendingReason && <> · {refund.pendingReason}</>}
              </p>
              {refund.lastError && <p class="muted">{refund.lastError}</p>}
              <p class="muted">{refund.refundId}</p>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

interface PartProps {
  name: "tickets" | "payments" | "timeline";
  empty: boolean;
  children: ComponentChildren;
}

function Part({ name, empty, children }: PartProps) {
  return (
    <section class="card" aria-labelledby={name}>
      <h2 id={name}>{t[name]}</h2>
      {empty ? <p class="muted">{t.nothing}</p> : children}
    </section>
  );
}

function Order({ order, tickets, payments, timeline, unreachable }: OrderDetail) {
  useHeading(fill(t.of, { user: order.userId }));
  return (
    <>
      {unreachable.includes("payment") && <Notice tone="warn">{t.unreachable}</Notice>}
      <section class="card">
        <Badge status={order.status} tone={order.status === "CONFIRMED" ? "good" : ""} />
        <dl class="facts">
          <Fact name={t.eventId}>
            <a href={`/events/${order.eventId}`}>
              <bdi>{order.eventId}</bdi>
            </a>
          </Fact>
          <Fact name={t.places}>{placesOf(order)}</Fact>
          <Fact name={common.total}>{formatMoney(order.amount, order.currency)}</Fact>
          {order.origin !== "SALE" && <Fact name={t.origin}>{order.origin}</Fact>}
          {order.reason && <Fact name={t.reason}>{order.reason}</Fact>}
          <Fact name={t.reservationId}>{order.reservationId}</Fact>
        </dl>
      </section>
      <Part name="tickets" empty={tickets.length === 0}>
        <ul class="plain">
          {tickets.map((ticket) => (
            <TicketLine key={ticket.ticketId} ticket={ticket} currency={order.currency} />
          ))}
        </ul>
      </Part>
      {!unreachable.includes("payment") && (
        <Part name="payments" empty={payments.length === 0}>
          <ul class="plain">{payments.map((payment) => <Paid key={payment.paymentId} payment={payment} />)}</ul>
        </Part>
      )}
      <Part name="timeline" empty={timeline.length === 0}>
        <ol class="steps">
          {timeline.map((step) => (
            <li key={`${step.at} ${step.id} ${step.status} ${step.note}`}>
              {t[step.of]}: {step.status} {step.note && <>· {step.note}</>}{" "}
              <time class="muted" dateTime={step.at}>
                {formatTime(step.at)}
              </time>
            </li>
          ))}
        </ol>
      </Part>
      <p>
        <a href="/admin/orders">{t.back}</a>
      </p>
    </>
  );
}

function OneOrder() {
  const loaded = useLoad((signal) => call<OrderDetail>("GET", `/admin/orders/${encodeURIComponent(orderId)}`, { signal }));
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  return <Order {...loaded.value} />;
}

start(orderId ? OneOrder : Search);
