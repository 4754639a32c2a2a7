// An order: its tickets, of which some or all can be given back, and its refunds.

import { useState } from "preact/hooks";
import { About } from "../lib/about";
import { useAction } from "../lib/action";
import { call, once, Problem } from "../lib/api";
import { formatMoney, formatTime } from "../lib/format";
import { bySeat, placeOf } from "../lib/order";
import { fill, pathPart, strings } from "../lib/page";
import { refundText } from "../lib/refund";
import { readEvent } from "../lib/sale";
import { start } from "../lib/start";
import type { List, Payment, Refund, SaleEvent, Ticket } from "../lib/types";
import { Announce, Failure, NotLoaded, Notice, useLoad } from "../lib/ui";

const t = strings("order");
const common = strings("common");
const paymentId = pathPart(1);

interface OrderState {
  payment: Payment;
  tickets: Ticket[];
  event: SaleEvent | undefined;
}

/** The visitor's tickets of the payment: they are newer than it, and the list begins with the newest. */
async function readTickets(payment: Payment, signal: AbortSignal): Promise<Ticket[]> {
  const found: Ticket[] = [];
  for (let cursor = ""; ; ) {
    const list = await call<List<Ticket>>("GET", `/my/tickets?limit=100&cursor=${encodeURIComponent(cursor)}`, { signal });
    found.push(...list.items.filter((ticket) => ticket.paymentId === payment.paymentId));
    const oldest = list.items.at(-1);
    cursor = list.nextCursor ?? "";
    if (!cursor || !oldest || Date.parse(oldest.issuedAt) < Date.parse(payment.createdAt)) break;
  }
  return found.sort((a, b) => (a.seat && b.seat ? bySeat(a.seat, b.seat) : 0));
}

async function readOrder(signal: AbortSignal): Promise<OrderState> {
  const payment = await call<Payment>("GET", `/payments/${paymentId}`, { signal });
  const [tickets, event] = await Promise.all([
    readTickets(payment, signal),
    readEvent(payment.eventId, signal).catch(() => undefined),
  ]);
  return { payment, tickets, event };
}

const open = (refund: Refund): boolean => refund.status === "REQUESTED" || refund.status === "PENDING" || refund.status === "HELD";

/** Seconds until a refund may have gone on: the older, the rarer. */
function untilProgress({ payment, tickets }: OrderState): number | undefined {
  const waiting = payment.refunds.filter(open);
  if (waiting.length === 0 && !tickets.some((ticket) => ticket.status === "REFUNDING")) return undefined;
  const youngest = Math.max(...waiting.map((refund) => Date.parse(refund.createdAt)), 0);
  return Math.min(60, Math.max(1, (Date.now() - youngest) / 5000));
}

interface TicketsProps extends OrderState {
  reload: (announcement: string) => void;
}

/** The tickets, with a form to give back some or all of those that can be. */
function Tickets({ payment, tickets, event, reload }: TicketsProps) {
  const [chosen, setChosen] = useState<string[]>([]);
  const { busy, failure, run } = useAction();
  const possible = tickets.filter((ticket) => !ticket.refundable.reason);
  const selected = possible.filter((ticket) => chosen.includes(ticket.ticketId));
  const sum = selected.reduce((total, ticket) => total + ticket.refundable.amount, 0);
  const amount = formatMoney(sum, payment.currency);
  /** Gives the chosen tickets back for at least what is shown, and asks again if it is less by now. */
  const giveBack = async (shown: number): Promise<boolean> => {
    try {
      const body = { ticketIds: selected.map((ticket) => ticket.ticketId), reason: "", amount: shown };
      await once<Refund>("POST", `/payments/${payment.paymentId}/refund`, { body });
      return true;
    } catch (failure) {
      const present = failure instanceof Problem && failure.code === "AMOUNT_CHANGED" ? Number(failure.body.amount) : NaN;
      if (!Number.isSafeInteger(present)) throw failure;
      return confirm(fill(t.changed, { amount: formatMoney(present, payment.currency) })) && giveBack(present);
    }
  };
  const submit = (submitted: SubmitEvent) => {
    submitted.preventDefault();
    if (!confirm(fill(t.sure, { amount }))) return;
    run(
      async () => {
        const given = await giveBack(sum);
        if (given) setChosen([]);
        reload(given ? t.asked : "");
      },
      () => reload(""), // what stands in the way is shown at its ticket
    );
  };
  const toggle = (id: string) => setChosen(chosen.includes(id) ? chosen.filter((other) => other !== id) : [...chosen, id]);
  return (
    <form onSubmit={submit}>
      <fieldset disabled={busy}>
        <legend>{possible.length > 0 ? t.choose : t.tickets}</legend>
        <ul class="plain">
          {tickets.map((ticket) => (
            <li key={ticket.ticketId}>
              <label class="choice">
                <input
                  type="checkbox"
                  value={ticket.ticketId}
                  disabled={ticket.refundable.reason !== undefined}
                  checked={selected.includes(ticket)}
                  onChange={() => toggle(ticket.ticketId)}
                />
                <span>
                  <bdi>{placeOf(ticket)}</bdi> · {formatMoney(ticket.price + ticket.fee, ticket.currency)}
                  <span class="muted refundable">{refundText(ticket, event)}</span>
                </span>
              </label>
            </li>
          ))}
        </ul>
      </fieldset>
      {failure !== undefined && <Failure failure={failure} />}
      {possible.length > 0 && (
        <button type="submit" disabled={busy || selected.length === 0}>
          {selected.length === 0 ? t.none : fill(t.give, { n: selected.length, amount })}
        </button>
      )}
    </form>
  );
}

function Refunds({ payment, tickets }: OrderState) {
  const place = (id: string): string | undefined => {
    const ticket = tickets.find((other) => other.ticketId === id);
    return ticket && placeOf(ticket);
  };
  return (
    <section class="card" aria-labelledby="refunds">
      <h2 id="refunds">{t.refunds}</h2>
      {payment.refunds.length === 0 && <p class="muted">{t.noRefunds}</p>}
      <ul class="plain">
        {payment.refunds.map((refund) => (
          <li key={refund.refundId} class="refund">
            <p class={`badge ${refund.status === "DONE" ? "good" : ""}`}>{t[refund.status]}</p>
            <p>
              {t[refund.cause]}
              {refund.status !== "REQUESTED" && !refund.reason && refund.amount > 0 && <> · <strong>{formatMoney(refund.amount, payment.currency)}</strong></>}
            </p>
            {refund.items.map((item) => place(item.ticketId) && <p key={item.ticketId}><bdi>{place(item.ticketId)}</bdi></p>)}
            <p class="muted">
              {fill(t[`${refund.reason ?? refund.status}_HELP`], {
                time: formatTime(refund.createdAt),
                amount: formatMoney(refund.amount, payment.currency),
              })}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Order() {
  const loaded = useLoad(readOrder, untilProgress);
  const [announcement, setAnnouncement] = useState("");
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  const { payment, tickets } = loaded.value;
  const reload = (text: string) => {
    setAnnouncement(text);
    loaded.reload();
  };
  return (
    <div class="columns">
      <section class="card" aria-labelledby="order">
        <h2 id="order">{t.order}</h2>
        <About eventId={payment.eventId} />
        <p class="sum">
          {common.total} <strong>{formatMoney(payment.amount, payment.currency)}</strong>
        </p>
        {tickets.length > 0 ? <Tickets {...loaded.value} reload={reload} /> : <Notice>{t.noTickets}</Notice>}
        {payment.receiptUrl?.startsWith("https://") && (
          <p>
            <a id="receipt" href={payment.receiptUrl} rel="noreferrer">{t.receipt}</a>
          </p>
        )}
        <p>
          <a href="/my">{t.toTickets}</a>
        </p>
      </section>
      <Refunds {...loaded.value} />
      <Announce text={announcement} />
    </div>
  );
}

start(Order);
