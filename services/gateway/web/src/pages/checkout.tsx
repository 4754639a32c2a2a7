// Pays for a reservation and waits until it is confirmed.

import { useMemo } from "preact/hooks";
import { reservationSource } from "../checkout/bill";
import { Order } from "../checkout/order";
import { open, readProviders, type Step } from "../checkout/payment";
import { ownOrReturned, untilSettled } from "../checkout/returned";
import { Payment, Progress, Stranger, useSteps } from "../checkout/steps";
import { eventOf } from "../lib/about";
import { Line } from "../lib/line";
import { pathPart, strings } from "../lib/page";
import { start } from "../lib/start";
import { useTurn } from "../lib/turn";
import type { Reservation, SaleEvent } from "../lib/types";
import { NotLoaded, Notice, useLoad } from "../lib/ui";

const t = strings("checkout");
const source = reservationSource(pathPart(1));

interface OwnOrder {
  step: Step<Reservation>;
  event: SaleEvent | undefined;
  providers: string[];
}

async function readOwn(signal: AbortSignal): Promise<OwnOrder> {
  const step = await open(source, signal);
  const providers = await readProviders(step.bill);
  // Before the order is shown, which would move when it comes later.
  return { step, providers, event: await eventOf(step.bill.eventId).catch(() => undefined) };
}

const read = ownOrReturned(readOwn);
const again = untilSettled();

function Checkout() {
  const loaded = useLoad(read, (value) => ("step" in value ? undefined : again(value)));
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  return "step" in loaded.value ? <Own {...loaded.value} /> : <Stranger returned={loaded.value} />;
}

function Own({ step: loaded, event, providers }: OwnOrder) {
  const payment = useSteps(loaded);
  const { step, setStep, busy } = payment;
  const { bill } = step;
  const line = useMemo(() => new Line(bill.eventId), [bill.eventId]);
  // Checkout may outlive the slot: only the hold matters here, so the end of the turn is not shown.
  useTurn(line, bill.status === "HELD" || bill.status === "PAYING");
  return (
    <div class="columns">
      <div>
        <Outcome step={step} />
        <Payment {...payment} providers={providers} />
      </div>
      <Order step={step} event={event} busy={busy} setStep={setStep} />
    </div>
  );
}

/** The state of the payment as text. */
function Outcome({ step }: { step: Step<Reservation> }) {
  const { status, eventId } = step.bill;
  switch (status) {
    case "HELD":
    case "PAYING":
      return <Progress step={step} />;
    case "CONFIRMED":
      return (
        <div class="card">
          <Notice tone="good">{t.confirmed}</Notice>
          <a class="button" href="/my">
            {t.toTickets}
          </a>
        </div>
      );
    default:
      return (
        <div class="card">
          <Notice tone="bad">{t[status]}</Notice>
          <a href={`/events/${eventId}`}>{t.again}</a>
        </div>
      );
  }
}

start(Checkout);
