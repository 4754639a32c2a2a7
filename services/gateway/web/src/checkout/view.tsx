// The parts of the checkout: the order and the form of the sandbox provider.

import { useState } from "preact/hooks";
import { About } from "../lib/about";
import { call, follow } from "../lib/api";
import { formatMoney } from "../lib/format";
import { bySeat } from "../lib/order";
import { fill, strings } from "../lib/page";
import { refundTerms } from "../lib/refund";
import type { Prepared, Reservation, SaleEvent } from "../lib/types";
import { Failure, Notice } from "../lib/ui";
import { pay, type SandboxAnswer, sandboxAnswers, type Step } from "./payment";

const t = strings("checkout");
const common = strings("common");

interface OrderProps {
  reservation: Reservation;
  event: SaleEvent | undefined;
  busy: boolean;
  setStep: (step: Step) => void;
}

/** The order, which can be cancelled until it is paid. */
export function Order({ reservation, event, busy, setStep }: OrderProps) {
  const [failure, setFailure] = useState<unknown>();
  // Places have their own prices; of general admission the total says all.
  const prices = reservation.seats.reduce((sum, seat) => sum + seat.price, 0);
  const fee = reservation.seats.length > 0 ? reservation.amount - prices : 0;
  const cancel = async () => {
    if (!confirm(t.cancelSure)) return;
    try {
      await call<void>("DELETE", `/my/reservations/${reservation.reservationId}`);
      setStep({ reservation: { ...reservation, status: "CANCELLED" } });
    } catch (cause) {
      if (!follow(cause)) setFailure(cause);
    }
  };
  return (
    <section class="card" aria-labelledby="order">
      <h2 id="order">{t.order}</h2>
      <About eventId={reservation.eventId} />
      <ul class="plain">
        {[...reservation.seats].sort(bySeat).map((seat) => (
          <li key={seat.seatId} class="row">
            <span>{fill(common.seat, { section: seat.section, row: seat.row, number: seat.number })}</span>
            <span>{formatMoney(seat.price, reservation.currency)}</span>
          </li>
        ))}
        {reservation.seats.length === 0 && (
          <li>{fill(common.general, { section: reservation.section, quantity: reservation.quantity })}</li>
        )}
      </ul>
      {fee > 0 && (
        <p class="row">
          <span>{t.fee}</span>
          <span>{formatMoney(fee, reservation.currency)}</span>
        </p>
      )}
      <p class="sum">
        {common.total} <strong>{formatMoney(reservation.amount, reservation.currency)}</strong>
      </p>
      {event && <p class="muted">{refundTerms(event)}</p>}
      {failure !== undefined && <Failure failure={failure} />}
      {reservation.status === "HELD" && (
        <button type="button" class="quiet" disabled={busy} onClick={() => void cancel()}>
          {t.cancel}
        </button>
      )}
    </section>
  );
}

interface PayProps {
  step: Step;
  prepared: Prepared;
  // Whether this payment can still be made.
  open: boolean;
  setStep: (step: Step) => void;
  busy: boolean;
  setBusy: (busy: boolean) => void;
}

/** The form of the sandbox provider, or the button of a free order; other providers have their own page. */
export function Pay({ step, prepared, open, setStep, busy, setBusy }: PayProps) {
  const [answer, setAnswer] = useState<SandboxAnswer>("ok");
  const free = prepared.provider === "none";
  if (prepared.provider !== "sandbox" && !free) {
    return <Notice>{fill(t.otherProvider, { provider: prepared.provider })}</Notice>;
  }
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const next = await pay(step, prepared, answer);
    setBusy(false);
    setStep(next);
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      {!free && (
        <fieldset disabled={busy || !open} aria-describedby="sandbox">
          <legend>{t.method}</legend>
          <p id="sandbox" class="muted">
            {t.methodHelp}
          </p>
          {sandboxAnswers.map((a) => (
            <label class="choice" key={a}>
              <input type="radio" name="answer" value={a} checked={answer === a} onChange={() => setAnswer(a)} />
              {t[a]}
            </label>
          ))}
        </fieldset>
      )}
      <button type="submit" disabled={busy || !open}>
        {busy ? t.paying : free ? t.payNothing : fill(t.pay, { amount: formatMoney(prepared.amount, prepared.currency) })}
      </button>
      <p class="hidden" role="status">
        {busy ? t.paying : ""}
      </p>
    </form>
  );
}
