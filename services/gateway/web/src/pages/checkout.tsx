// Pays for a reservation and waits until it is confirmed.

import { useEffect, useMemo, useState } from "preact/hooks";
import { eventOf } from "../lib/about";
import { SignInLink } from "../lib/action";
import { Problem } from "../lib/api";
import { awaitOutcome, open, pageAddress, readProviders, type Step, watchHold } from "../checkout/payment";
import { arrived, readReturned, settled } from "../checkout/returned";
import { OpenPage, Order, type PartProps, Pay } from "../checkout/view";
import { Line } from "../lib/line";
import { fill, pathPart, strings } from "../lib/page";
import { start } from "../lib/start";
import { useTurn } from "../lib/turn";
import type { Returned, SaleEvent } from "../lib/types";
import { Countdown, Failure, NotLoaded, Notice, useLoad, useMainFocus } from "../lib/ui";

const t = strings("checkout");
const reservationId = pathPart(1);

interface OwnOrder {
  step: Step;
  event: SaleEvent | undefined;
  providers: string[];
}

async function readOwn(signal: AbortSignal): Promise<OwnOrder> {
  const [step, providers] = await Promise.all([open(reservationId, signal), readProviders()]);
  // Before the order is shown, which would move when it comes later.
  return { step, providers, event: await eventOf(step.reservation.eventId) };
}

// Whether somebody is back from a provider's page in a browser that has no session, or another user's.
let stranger = false;

async function read(signal: AbortSignal): Promise<OwnOrder | Returned> {
  const back = arrived();
  if (back && !stranger) {
    try {
      return await readOwn(signal);
    } catch (cause) {
      stranger = cause instanceof Problem && (cause.status === 401 || cause.status === 404);
      if (!stranger) throw cause;
    }
  }
  return back ? readReturned(back, signal) : readOwn(signal);
}

function Checkout() {
  let polls = 0;
  const loaded = useLoad(read, (value) => ("step" in value || settled(value) ? undefined : ++polls < 30 ? 1 : 3));
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  return "step" in loaded.value ? <Steps {...loaded.value} loaded={loaded.value.step} /> : <Stranger returned={loaded.value} />;
}

/** The outcome for whoever came back from the page; the tickets are for their owner. */
function Stranger({ returned }: { returned: Returned }) {
  const paid = returned.status === "CONFIRMED";
  return (
    <div class="card">
      {returned.status === "DECLINED" && <Declined text={t.declinedThere} code={returned.declineCode} />}
      {returned.status !== "DECLINED" && (
        <Notice tone={paid ? "good" : "info"}>{paid ? t.paidThere : settled(returned) ? t.unpaidThere : t.pendingThere}</Notice>
      )}
      <SignInLink label={paid ? t.signInTickets : t.signInOrder} />
    </div>
  );
}

function Steps({ loaded, event, providers }: { loaded: Step; event: SaleEvent | undefined; providers: string[] }) {
  const [step, setStep] = useState(loaded);
  const [busy, setBusy] = useState(false);
  const { reservation } = step;
  const payable = reservation.status === "HELD" || step.open !== undefined;
  const unpaid = reservation.status === "HELD" || reservation.status === "PAYING";
  const line = useMemo(() => new Line(reservation.eventId), [reservation.eventId]);
  // Checkout may outlive the slot: only the hold matters here, so the end of the turn is not shown.
  useTurn(line, unpaid);
  useMainFocus(reservation.status === "HELD");

  useEffect(() => {
    const abort = new AbortController();
    // A page reloaded during the payment keeps waiting for it.
    if (!busy && (step.open || reservation.status === "PAYING")) void awaitOutcome(step, setStep, abort.signal);
    else if (!busy && reservation.status === "HELD") void watchHold(step, setStep, abort.signal);
    return () => abort.abort();
  }, [reservation.status, busy, step.attempt, step.open]);

  return (
    <div class="columns">
      <div>
        <Outcome step={step} />
        {payable && <Payment step={step} setStep={setStep} busy={busy} setBusy={setBusy} providers={providers} />}
      </div>
      <Order step={step} event={event} busy={busy} setStep={setStep} />
    </div>
  );
}

function Declined({ text, code }: { text: string; code: string | undefined }) {
  return (
    <Notice tone="bad">
      <p>{text}</p>
      {code && <p class="muted">{fill(t.declineCode, { code })}</p>}
    </Notice>
  );
}

/** The state of the payment as text. */
function Outcome({ step }: { step: Step }) {
  const { reservation } = step;
  switch (reservation.status) {
    case "HELD":
      if (step.declined) return <Declined text={t.declined} code={step.declined} />;
      return step.unpaid ? <Notice>{t.unpaid}</Notice> : null;
    case "PAYING":
      if (step.open) return null; // beside the button
      if (step.failure !== undefined) return <Failure failure={step.failure} />;
      return <Notice>{step.charged ? t.settling : t.pending}</Notice>;
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
          <Notice tone="bad">{t[reservation.status]}</Notice>
          <a href={`/events/${reservation.eventId}`}>{t.again}</a>
        </div>
      );
  }
}

/** The payment that is open, or the hold with its remaining time and the button to pay. */
function Payment({ providers, ...props }: PartProps & { providers: string[] }) {
  const { reservation, open } = props.step;
  const address = pageAddress(open?.page);
  if (open && address) return <OpenPage {...props} payment={open} address={address} />;
  return (
    <section class="card" aria-label={t.title}>
      <p>
        {t.timeLeft} <Countdown end={Date.parse(open?.expiresAt ?? reservation.expiresAt)} warning={t.timeSoon} />
      </p>
      <Pay {...props} providers={providers} />
    </section>
  );
}

start(Checkout);
