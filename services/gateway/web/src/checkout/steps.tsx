// The way of a payment: from the button to its outcome, also when the page is reloaded or the buyer
// comes back.

import { useEffect, useState } from "preact/hooks";
import { SignInLink } from "../lib/action";
import { formatNumber } from "../lib/format";
import { fill } from "../lib/page";
import type { Returned } from "../lib/types";
import { Countdown, Failure, Notice, useMainFocus } from "../lib/ui";
import type { Bill } from "./bill";
import { OpenPage, type PartProps, Pay } from "./pay";
import { awaitOutcome, pageAddress, type Step, watchHold } from "./payment";
import { settled } from "./returned";
import { words as t } from "./words";

/** Follows a payment from the step that is loaded on. */
export function useSteps<B extends Bill>(loaded: Step<B>): PartProps<B> {
  const [step, setStep] = useState(loaded);
  const [busy, setBusy] = useState(false);
  const { bill } = step;
  useMainFocus(bill.status === "HELD");
  useEffect(() => {
    const abort = new AbortController();
    // A page reloaded during the payment keeps waiting for it.
    if (!busy && (step.open || bill.status === "PAYING")) void awaitOutcome(step, setStep, abort.signal);
    else if (!busy && bill.status === "HELD") void watchHold(step, setStep, abort.signal);
    return () => abort.abort();
  }, [bill.status, busy, step.attempt, step.open]);
  return { step, setStep, busy, setBusy };
}

// Seconds that a buyer waits without a word about it.
const leastWait = 5;

function Declined({ text, code }: { text: string; code: string | undefined }) {
  if (code === "NOT_TAKEN") return <Notice tone="bad">{t.notTaken}</Notice>;
  return (
    <Notice tone="bad">
      <p>{text}</p>
      {code && <p class="muted">{fill(t.declineCode, { code })}</p>}
    </Notice>
  );
}

/** What became of the last attempt, while there may be another one, and of the payment under way. */
export function Progress({ step }: { step: Step }) {
  if (step.bill.status === "HELD") {
    if (step.declined) return <Declined text={t.declined} code={step.declined} />;
    return step.unpaid ? <Notice>{t.unpaid}</Notice> : null;
  }
  if (step.open) return null; // beside the button
  if (step.failure !== undefined) return <Failure failure={step.failure} />;
  if (step.behind && step.behind >= leastWait) return <Notice>{fill(t.behind, { n: formatNumber(Math.ceil(step.behind / 5) * 5) })}</Notice>;
  return <Notice>{step.charged ? t.settling : t.pending}</Notice>;
}

/** The payment that is open, or the time that is left and the button to pay; nothing once it is over. */
export function Payment<B extends Bill>({ providers, ...props }: PartProps<B> & { providers: string[] }) {
  const { bill, open } = props.step;
  if (bill.status !== "HELD" && !open) return null;
  const address = pageAddress(open?.page);
  if (open && address) return <OpenPage {...props} payment={open} address={address} />;
  return (
    <section class="card" aria-label={t.title}>
      <p>
        {t.timeLeft} <Countdown end={Date.parse(open?.expiresAt ?? bill.expiresAt)} warning={t.timeSoon} />
      </p>
      <Pay {...props} providers={providers} />
    </section>
  );
}

/** The outcome for whoever came back from the page; the tickets are for their owner. */
export function Stranger({ returned }: { returned: Returned }) {
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
