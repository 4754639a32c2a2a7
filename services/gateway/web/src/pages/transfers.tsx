// Tickets that pass from one user to another: one offer, by its link or its id, or all of the visitor.

import { useState } from "preact/hooks";
import { lookAt, type OfferName, type TransferBill, transferSource } from "../checkout/bill";
import { giveBack, open, readProviders, type Step } from "../checkout/payment";
import { ownOrReturned, untilSettled } from "../checkout/returned";
import { Payment, Progress, Stranger, useSteps } from "../checkout/steps";
import { About, eventOf } from "../lib/about";
import { useAction } from "../lib/action";
import { once } from "../lib/api";
import { formatMoney } from "../lib/format";
import { restoreFragment } from "../lib/onward";
import { placeOf } from "../lib/order";
import { fill, pathPart, strings } from "../lib/page";
import { Paged } from "../lib/paged";
import { start } from "../lib/start";
import type { Transfer } from "../lib/types";
import { Announce, Failure, NotLoaded, Notice, useLoad, useMainFocus } from "../lib/ui";
import { formatEventTime } from "../lib/zone";
import { lasts, priceText, TakeBack, TransferBadge } from "../transfers/offer";

const t = strings("transfers");
const common = strings("common");
const words = strings("transfer");
const checkout = strings("checkout");

const transferId = pathPart(1);
restoreFragment();
const claim = location.hash.startsWith("#/") ? location.hash.slice(2) : "";
const name: OfferName = claim ? { claim } : { transferId };

interface Deal {
  transfer: Transfer;
  timeZone: string | undefined;
  // The buyer's payment.
  step?: Step<TransferBill>;
  providers: string[];
}

async function readDeal(signal: AbortSignal): Promise<Deal> {
  const transfer = await lookAt(name, signal);
  // Before the offer is shown, which would move when it comes later.
  const timeZone = (await eventOf(transfer.eventId).catch(() => undefined))?.timeZone;
  if (transfer.role !== "BUYER") return { transfer, timeZone, providers: [] };
  const step = await open(transferSource(transfer, name), signal);
  const providers = await readProviders(step.bill);
  return { transfer, timeZone, step, providers };
}

const read = ownOrReturned(readDeal);
const untilPaid = untilSettled();

/** Seconds until an offer is read again. A payment is followed by its own steps. */
const untilNews = (deal: Deal): number | undefined => (!deal.step && lasts(deal.transfer) ? 10 : undefined);

function One() {
  const loaded = useLoad(read, (value) => ("transfer" in value ? untilNews(value) : untilPaid(value)));
  useMainFocus(loaded.state === "ready" && "step" in loaded.value);
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  const { value, reload } = loaded;
  if (!("transfer" in value)) return <Stranger returned={value} />;
  const { step } = value;
  return (
    <>
      {step ? <Buying {...value} step={step} /> : <Offer {...value} reload={reload} />}
      <p>
        <a href="/transfers">{t.list}</a>
      </p>
    </>
  );
}

function Terms({ transfer, timeZone }: { transfer: Transfer; timeZone: string | undefined }) {
  return (
    <>
      <h2 id="offer">{t.offer}</h2>
      <About eventId={transfer.eventId} />
      <p>{placeOf(transfer)}</p>
      <dl class="facts">
        <div>
          <dt>{t.face}</dt>
          <dd>{formatMoney(transfer.faceValue, transfer.currency)}</dd>
        </div>
        <div>
          <dt>{t.price}</dt>
          <dd>
            <strong>{priceText(transfer)}</strong>
          </dd>
        </div>
        {transfer.status === "OPEN" && (
          <div>
            <dt>{t.until}</dt>
            <dd>{formatEventTime(timeZone, transfer.deadline)}</dd>
          </div>
        )}
      </dl>
    </>
  );
}

/** An offer that the visitor has not accepted. */
function Offer({ transfer, timeZone, reload }: Deal & { reload: () => void }) {
  const { busy, failure, run } = useAction();
  const [announcement, setAnnouncement] = useState("");
  const accept = () =>
    run(
      async () => {
        await once<Transfer>("POST", "/transfers/accept", { body: name });
        reload();
      },
      reload, // what stands in the way is shown
    );
  const cancelled = (text: string) => {
    setAnnouncement(text);
    reload();
  };
  return (
    <section class="card narrow" aria-labelledby="offer">
      <Terms transfer={transfer} timeZone={timeZone} />
      <Standing transfer={transfer} />
      {failure !== undefined && <Failure failure={failure} />}
      {transfer.role === "" && transfer.status === "OPEN" && (
        <>
          {transfer.price > 0 && <p class="muted">{t.acceptHelp}</p>}
          <p>
            <button type="button" disabled={busy} onClick={accept}>
              {transfer.price === 0 ? t.accept : fill(t.acceptFor, { price: priceText(transfer) })}
            </button>
          </p>
        </>
      )}
      {transfer.role === "SELLER" && lasts(transfer) && <TakeBack transferId={transfer.transferId} done={cancelled} />}
      <Announce text={announcement} />
    </section>
  );
}

/** The state of an offer, where it is more than open. */
function Standing({ transfer: { role, status, reason } }: { transfer: Transfer }) {
  const seller = role === "SELLER";
  if (status === "OPEN") return seller ? <Notice>{t.own}</Notice> : null;
  if (status === "AWAITING_PAYMENT") return <Notice>{seller ? words.waits : t.taken}</Notice>;
  if (status === "COMPLETED") return <Notice tone={seller ? "good" : "bad"}>{seller ? t.sold : t.gone}</Notice>;
  return <Notice tone={seller ? "info" : "bad"}>{reason ? words[reason] : words[status]}</Notice>;
}

/** The accepted offer: its payment, and the ticket in the end. */
function Buying({ transfer, timeZone, step: loaded, providers }: Deal & { step: Step<TransferBill> }) {
  const payment = useSteps(loaded);
  const { step, setStep, busy } = payment;
  const { busy: giving, failure, run } = useAction();
  const giveUp = () => {
    if (confirm(t.giveUpSure)) run(async () => setStep(await giveBack(step)), () => undefined);
  };
  return (
    <div class="columns">
      <div>
        <Outcome step={step} />
        <Payment {...payment} providers={providers} />
      </div>
      <section class="card" aria-labelledby="offer">
        <Terms transfer={transfer} timeZone={timeZone} />
        {failure !== undefined && <Failure failure={failure} />}
        {(step.bill.status === "HELD" || step.open) && (
          <button type="button" class="quiet" disabled={busy || giving} onClick={giveUp}>
            {t.giveUp}
          </button>
        )}
      </section>
    </div>
  );
}

function Outcome({ step }: { step: Step<TransferBill> }) {
  switch (step.bill.status) {
    case "HELD":
    case "PAYING":
      return <Progress step={step} />;
    case "CONFIRMED":
      return (
        <div class="card">
          <Notice tone="good">{t.yours}</Notice>
          <a class="button" href="/my">
            {checkout.toTickets}
          </a>
        </div>
      );
    case "CANCELLED":
      return <Notice>{t.gaveUp}</Notice>;
    case "REJECTED":
      return <Notice tone="bad">{t.late}</Notice>;
    default:
      return <Notice tone="bad">{t.over}</Notice>;
  }
}

function TransferCard({ transfer, reload }: { transfer: Transfer; reload: (announcement: string) => void }) {
  const { role, status, reason } = transfer;
  const part = role === "SELLER" ? t.fromYou : role === "BUYER" ? t.toYou : t.forYou;
  const toPay = role === "BUYER" && status === "AWAITING_PAYMENT";
  return (
    <li class="card">
      <TransferBadge transfer={transfer} />
      <About eventId={transfer.eventId} />
      <p>{placeOf(transfer)}</p>
      <p>
        {part} · <strong>{priceText(transfer)}</strong>
        {transfer.toUserId && <> · {fill(words.onlyFor, { user: transfer.toUserId })}</>}
      </p>
      {reason && <p class="muted">{words[reason]}</p>}
      {role === "SELLER" && status === "AWAITING_PAYMENT" && <p class="muted">{words.waits}</p>}
      {(toPay || role === "") && lasts(transfer) && (
        <p>
          <a class="button" href={`/transfers/${transfer.transferId}`}>
            {toPay ? common.toPayment : t.see}
          </a>
        </p>
      )}
      {role === "BUYER" && status === "COMPLETED" && (
        <p>
          <a href="/my">{checkout.toTickets}</a>
        </p>
      )}
      {role === "SELLER" && lasts(transfer) && <TakeBack transferId={transfer.transferId} done={reload} />}
    </li>
  );
}

function All() {
  const [announcement, setAnnouncement] = useState("");
  const announced = (reload: () => void) => (text: string) => {
    setAnnouncement(text);
    reload();
  };
  return (
    <section aria-labelledby="offers">
      <h2 id="offers">{t.offers}</h2>
      <Paged<Transfer>
        path="/my/transfers"
        none={t.none}
        item={(transfer, reload) => <TransferCard key={transfer.transferId} transfer={transfer} reload={announced(reload)} />}
      />
      <Announce text={announcement} />
    </section>
  );
}

// Another link that is opened here changes the fragment only.
addEventListener("hashchange", () => location.hash.startsWith("#/") && location.reload());
start(claim || transferId ? One : All);
