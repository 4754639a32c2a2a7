// Pays for a reservation and waits until it is confirmed.

import { useEffect, useMemo, useState } from "preact/hooks";
import { eventOf } from "../lib/about";
import { follow } from "../lib/api";
import { open, prepare, awaitOutcome, type Step, watchHold } from "../checkout/payment";
import { Order, Pay } from "../checkout/view";
import { Line } from "../lib/line";
import { fill, pathPart, strings } from "../lib/page";
import { start } from "../lib/start";
import { useTurn } from "../lib/turn";
import type { Prepared, SaleEvent } from "../lib/types";
import { Countdown, Failure, Loading, NotLoaded, Notice, useLoad, useMainFocus } from "../lib/ui";

const t = strings("checkout");
const reservationId = pathPart(1);

function Checkout() {
  const loaded = useLoad(async (signal) => {
    const step = await open(reservationId, signal);
    // Before the order is shown, which would move when it comes later.
    return { step, event: await eventOf(step.reservation.eventId) };
  });
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  return <Steps loaded={loaded.value.step} event={loaded.value.event} />;
}

function Steps({ loaded, event }: { loaded: Step; event: SaleEvent | undefined }) {
  const [step, setStep] = useState(loaded);
  const [busy, setBusy] = useState(false);
  const { reservation } = step;
  const payable = reservation.status === "HELD" || (reservation.status === "PAYING" && step.again === true);
  const unpaid = reservation.status === "HELD" || reservation.status === "PAYING";
  const line = useMemo(() => new Line(reservation.eventId), [reservation.eventId]);
  // Checkout may outlive the slot: only the hold matters here, so the end of the turn is not shown.
  useTurn(line, unpaid);
  useMainFocus(reservation.status === "HELD");

  useEffect(() => {
    const abort = new AbortController();
    // A page reloaded during the payment keeps waiting for it.
    if (reservation.status === "PAYING" && !busy) void awaitOutcome(step, setStep, abort.signal);
    if (reservation.status === "HELD" && !busy) void watchHold(step, setStep, abort.signal);
    return () => abort.abort();
  }, [reservation.status, busy, step.attempt, step.again]);

  return (
    <div class="columns">
      <div>
        <Outcome step={step} />
        {payable && (
          <Payment step={step} setStep={setStep} busy={busy} setBusy={setBusy} />
        )}
      </div>
      <Order reservation={reservation} event={event} busy={busy} setStep={setStep} />
    </div>
  );
}

function Declined({ code }: { code: string }) {
  return (
    <Notice tone="bad">
      <p>{t.declined}</p>
      <p class="muted">{fill(t.declineCode, { code })}</p>
    </Notice>
  );
}

/** The state of the payment as text. */
function Outcome({ step }: { step: Step }) {
  const { reservation } = step;
  switch (reservation.status) {
    case "HELD":
      return step.declined ? <Declined code={step.declined} /> : null;
    case "PAYING":
      if (step.again) return null; // beside the form
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

interface PaymentProps {
  step: Step;
  setStep: (step: Step) => void;
  busy: boolean;
  setBusy: (busy: boolean) => void;
}

/** The hold with its remaining time and the form of the provider. */
function Payment({ step, setStep, busy, setBusy }: PaymentProps) {
  const [last, setLast] = useState<{ attempt: number; prepared: Prepared }>();
  const [failure, setFailure] = useState<unknown>();
  const [round, setRound] = useState(0);
  const { reservation, attempt = 0 } = step;
  useEffect(() => {
    const abort = new AbortController();
    setFailure(undefined);
    prepare(reservation.reservationId, abort.signal).then(
      (prepared) => setLast({ attempt, prepared }),
      (cause: unknown) => {
        if (!abort.signal.aborted && !follow(cause)) setFailure(cause);
      },
    );
    return () => abort.abort();
  }, [reservation.reservationId, attempt, round]);
  // While a payment is in progress the places are held for longer than it may be made again.
  const end = (step.again && last?.prepared.expiresAt) || reservation.expiresAt;
  return (
    <section class="card" aria-label={t.title}>
      <p>
        {t.timeLeft} <Countdown end={Date.parse(end)} warning={t.timeSoon} />
      </p>
      {failure !== undefined && <Failure failure={failure} retry={() => setRound((n) => n + 1)} />}
      {step.failure !== undefined && <Failure failure={step.failure} />}
      {last && (
        <Pay
          step={step}
          prepared={last.prepared}
          // The form stays visible, but a declined payment must not be sent again.
          open={last.attempt === attempt}
          setStep={setStep}
          busy={busy}
          setBusy={setBusy}
        />
      )}
      {!last && failure === undefined && <Loading />}
    </section>
  );
}

start(Checkout);
