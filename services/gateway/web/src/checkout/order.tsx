// The order of a checkout.

import { useState } from "preact/hooks";
import { About } from "../lib/about";
import { follow } from "../lib/api";
import { formatMoney } from "../lib/format";
import { bySeat } from "../lib/order";
import { fill, strings } from "../lib/page";
import { refundTerms } from "../lib/refund";
import type { Reservation, SaleEvent } from "../lib/types";
import { Failure } from "../lib/ui";
import { giveBack, type Step } from "./payment";

const t = strings("checkout");
const common = strings("common");

interface OrderProps {
  step: Step<Reservation>;
  event: SaleEvent | undefined;
  busy: boolean;
  setStep: (step: Step<Reservation>) => void;
}

/** The order, which can be cancelled until it is charged. */
export function Order({ step, event, busy, setStep }: OrderProps) {
  const { bill: reservation } = step;
  const [failure, setFailure] = useState<unknown>();
  // Places have their own prices; of general admission the total says all.
  const prices = reservation.seats.reduce((sum, seat) => sum + seat.price, 0);
  const fee = reservation.seats.length > 0 ? reservation.amount - prices : 0;
  const cancel = async () => {
    if (!confirm(t.cancelSure)) return;
    try {
      setStep(await giveBack(step));
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
        {fee > 0 && (
          <li class="row">
            <span>{t.fee}</span>
            <span>{formatMoney(fee, reservation.currency)}</span>
          </li>
        )}
      </ul>
      <p class="sum">
        {common.total} <strong>{formatMoney(reservation.amount, reservation.currency)}</strong>
      </p>
      {event && <p class="muted">{refundTerms(event)}</p>}
      {failure !== undefined && <Failure failure={failure} />}
      {(reservation.status === "HELD" || step.open) && (
        <button type="button" class="quiet" disabled={busy} onClick={() => void cancel()}>
          {t.cancel}
        </button>
      )}
    </section>
  );
}
