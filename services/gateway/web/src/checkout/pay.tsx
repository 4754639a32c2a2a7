// The parts of a payment: the way to the provider's page, and the form of the sandbox provider.

import { useState } from "preact/hooks";
import { Problem } from "../lib/api";
import { formatMoney } from "../lib/format";
import { fill } from "../lib/page";
import type { Payment, Prepared } from "../lib/types";
import { Countdown, Failure, Notice } from "../lib/ui";
import type { Bill } from "./bill";
import { begin, giveUp, pay, type SandboxAnswer, sandboxAnswers, type Step } from "./payment";
import { words as t } from "./words";

/** What the parts of a payment have in common. */
export interface PartProps<B extends Bill = Bill> {
  step: Step<B>;
  setStep: (step: Step<B>) => void;
  busy: boolean;
  setBusy: (busy: boolean) => void;
}

/** The payment that is open on the page of its provider: the buyer goes on there, or gives it up. */
export function OpenPage<B extends Bill>({ payment, address, step, setStep, busy, setBusy }: PartProps<B> & { payment: Payment; address: string }) {
  const stop = async () => {
    setBusy(true);
    const next = await giveUp(step, payment);
    setBusy(false);
    setStep(next);
  };
  return (
    <section class="card" aria-label={t.title}>
      <p>
        {t.pageTime} <Countdown end={Date.parse(payment.expiresAt)} warning={t.timeSoon} />
      </p>
      <Notice>{fill(t.open, { provider: providerName(payment.provider) })}</Notice>
      {step.failure !== undefined && <Failure failure={step.failure} />}
      <p>
        <a class="button wide" href={address}>
          {t.continue}
        </a>
      </p>
      <button type="button" class="quiet" disabled={busy} onClick={() => void stop()}>
        {t.stop}
      </button>
    </section>
  );
}

const providerNames: Partial<Record<string, string>> = { sandbox: t.sandbox, stripe: t.stripe, toss: t.toss };
const providerName = (provider: string): string => providerNames[provider] ?? provider;

/** Why the payment did not begin. Places that are still held were not payable because of the pages opened for them. */
function NotBegun({ failure, step: { bill, source } }: { failure: unknown; step: Step }) {
  const held = source.paymentType === "reservation" && bill.status === "HELD";
  const tooOften = held && failure instanceof Problem && failure.code === "NOT_PAYABLE";
  return tooOften ? <Notice tone="bad">{t.noMorePages}</Notice> : <Failure failure={failure} />;
}

/** The button that begins to pay, and, where the sandbox has no page of its own, its form. */
export function Pay<B extends Bill>({ step, setStep, busy, setBusy, providers }: PartProps<B> & { providers: string[] }) {
  const { bill, attempt = 0 } = step;
  const [provider, setProvider] = useState(providers[0] ?? "");
  const [answer, setAnswer] = useState<SandboxAnswer>("ok");
  const [last, setLast] = useState<{ attempt: number; prepared: Prepared }>();
  // A declined payment must not be sent again.
  const prepared = last?.attempt === attempt ? last.prepared : undefined;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const next = prepared ? await pay(step, prepared, answer) : await begin(step, provider);
    if (next === "leaving") return; // the button stays disabled until the other page is there
    setBusy(false);
    if ("orderId" in next) setLast({ attempt, prepared: next });
    else setStep(next);
  };
  if (prepared && prepared.provider !== "sandbox") return <Notice>{fill(t.otherProvider, { provider: providerName(prepared.provider) })}</Notice>;
  const free = bill.amount === 0;
  return (
    <form onSubmit={(event) => void submit(event)}>
      {step.failure !== undefined && <NotBegun failure={step.failure} step={step} />}
      {prepared && (
        <Choice name="answer" legend={t.method} help={t.methodHelp} options={sandboxAnswers} text={(a) => t[a]} chosen={answer} choose={setAnswer} disabled={busy} />
      )}
      {!prepared && !free && providers.length > 1 && (
        <Choice name="provider" legend={t.provider} options={providers} text={providerName} chosen={provider} choose={setProvider} disabled={busy} />
      )}
      <button type="submit" disabled={busy}>
        {busy ? t.paying : free ? t.payNothing : fill(t.pay, { amount: formatMoney(bill.amount, bill.currency) })}
      </button>
      <p class="hidden" role="status">
        {busy ? t.paying : ""}
      </p>
    </form>
  );
}

interface ChoiceProps<T extends string> {
  name: string;
  legend: string;
  help?: string;
  options: readonly T[];
  text: (option: T) => string;
  chosen: T;
  choose: (option: T) => void;
  disabled: boolean;
}

function Choice<T extends string>({ name, legend, help, options, text, chosen, choose, disabled }: ChoiceProps<T>) {
  return (
    <fieldset disabled={disabled} {...(help ? { "aria-describedby": name } : {})}>
      <legend>{legend}</legend>
      {help && (
        <p id={name} class="muted">
          {help}
        </p>
      )}
      {options.map((option) => (
        <label class="choice" key={option}>
          <input type="radio" name={name} value={option} checked={chosen === option} onChange={() => choose(option)} />
          {text(option)}
        </label>
      ))}
    </fieldset>
  );
}
