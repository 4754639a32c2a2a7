// The visitor's own request: applying, its state, its receipt, and taking it back.

import { useState } from "preact/hooks";
import { SignInLink, useAction } from "../lib/action";
import { Download } from "../lib/download";
import { isoTime } from "../lib/drawn";
import { formatClock, formatNumber, formatTime } from "../lib/format";
import { fill, strings } from "../lib/page";
import { readReceipts } from "../lib/receipts";
import { Problem } from "../lib/problem";
import { isSoldOut, RequestBadge, requestText, Timeline } from "../lib/request";
import { serverNow } from "../lib/now";
import type { EventRequest, Promotion } from "../lib/types";
import { Failure, Notice } from "../lib/ui";
import { In } from "./draw";
import { apply, applySpread, type Application, isLottery, withdraw } from "./state";

const t = strings("promo");
const request = strings("request");

interface ApplyProps {
  promotion: Promotion;
  signedIn: boolean;
  done: (application: Application) => void;
  // Called after a failure: the promotion may have changed.
  failed: () => void;
}

/** The button to apply, or the link to sign in. */
export function Apply({ promotion, signedIn, done, failed }: ApplyProps) {
  const { busy, failure, run } = useAction();
  const [waits, setWaits] = useState<Problem>();
  const soldOut = isSoldOut(promotion) || (failure instanceof Problem && failure.code === "SOLD_OUT");
  // Who has an own time may ask for it before the opening.
  const early = promotion.status === "Scheduled" && applySpread(promotion) > 0;
  const open = early || (promotion.status === "Open" && !promotion.paused && !soldOut);
  if (soldOut) return failure === undefined ? null : <Notice>{t.soldOut}</Notice>;
  if (!signedIn) {
    if (promotion.status !== "Open" && promotion.status !== "Scheduled") return null;
    return <SignInLink label={t.signIn} />;
  }
  const act = () => {
    setWaits(undefined);
    run(async () => done(await apply(promotion, setWaits)), failed);
  };
  return (
    <>
      {failure !== undefined && <Failure failure={failure} />}
      {failure !== undefined && open && <p>{t.tryAgain}</p>}
      {busy && waits && <Waits failure={waits} />}
      {(open || busy) && (
        <button type="button" class="wide" disabled={busy} onClick={act}>
          {busy ? t.applying : early ? t.applyLater : t.apply}
        </button>
      )}
    </>
  );
}

/** Why the application is not sent yet: before the visitor's own time, or after a failure. */
function Waits({ failure }: { failure: Problem }) {
  const { asksAt, opensAt } = failure.body;
  if (!asksAt) return <Failure failure={failure} retrying />;
  const times = { opens: formatTime(isoTime(Number(opensAt))), time: formatClock(Number(asksAt)) };
  return (
    <Notice>
      <p>{fill(t.turn, times)}</p>
      <In text={t.turnIn} end={Number(asksAt)} />
    </Notice>
  );
}

interface OwnProps {
  promotion: Promotion;
  own: EventRequest;
  // The visitor had applied before.
  duplicate: boolean;
  reload: () => void;
}

/** The request and what became of it. */
export function Own({ promotion, own, duplicate, reload }: OwnProps) {
  const pending = own.uiResult === "PENDING";
  const tone = own.uiResult === "SUCCESS" ? "good" : own.uiResult === "FAILED" ? "bad" : "info";
  const cancelled = promotion.status === "Void";
  return (
    <>
      {duplicate && <Notice>{t.duplicate}</Notice>}
      {!cancelled && <RequestBadge request={own} />}
      {!cancelled && (
        <Notice tone={tone}>
          <p id="outcome">{requestText(own)}</p>
          {own.place && <p>{fill(t.yourPlace, { n: formatNumber(own.place), of: formatNumber(promotion.capacityTotal) })}</p>}
        </Notice>
      )}
      {pending && !isLottery(promotion) && <p class="muted">{t.follow}</p>}
      {isLottery(promotion) && <Receipt promotion={promotion} own={own} />}
      {isLottery(promotion) && pending && <Withdraw promotion={promotion} own={own} done={reload} />}
      {own.queueSeq && (
        <p class="muted">
          {request.order} {own.queueSeq.replace(/^0+(?=\d)/, "")}
        </p>
      )}
      <Timeline key={own.uiResult} requestId={own.requestId} />
    </>
  );
}

/** The receipt, from the response or from the storage of this browser. */
function Receipt({ promotion, own }: { promotion: Promotion; own: EventRequest }) {
  const saved = readReceipts(promotion.eventId).find((r) => r.requestId === own.requestId)?.receipt;
  const receipt = own.receipt ?? saved;
  if (!receipt) return null;
  return (
    <section class="receipt" aria-labelledby="receipt">
      <h3 id="receipt">{t.receipt}</h3>
      <p>{t.receiptHelp}</p>
      {saved && <p class="muted">{t.receiptSaved}</p>}
      <p>
        <Download name={`receipt-${own.requestId}.txt`} type="text/plain" text={`${receipt}\n`} label={t.receiptSave} />
      </p>
    </section>
  );
}

function Withdraw({ promotion, own, done }: { promotion: Promotion; own: EventRequest; done: () => void }) {
  const { busy, failure, run } = useAction();
  const possible = promotion.status === "Open" && Date.parse(promotion.lotteryCutoffAt ?? promotion.closesAt) > serverNow();
  if (!possible && failure === undefined) return null;
  const act = () => {
    if (!confirm(t.withdrawSure)) return;
    run(async () => {
      await withdraw(own.requestId);
      done();
    }, done);
  };
  return (
    <>
      {failure !== undefined && <Failure failure={failure} />}
      {possible && (
        <p>
          <button type="button" class="quiet" disabled={busy} onClick={act}>
            {busy ? t.withdrawing : t.withdraw}
          </button>
        </p>
      )}
    </>
  );
}
