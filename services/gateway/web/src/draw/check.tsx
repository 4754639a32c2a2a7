// The verification of a draw, in the visitor's own browser.

import { useState } from "preact/hooks";
import { send } from "../lib/api";
import { isoTime } from "../lib/drawn";
import { type DrawDocument, type Outcome, type ReceiptReport, type Report, type Verdict, verifyDraw } from "../lib/fairdraw";
import { formatNumber, formatTime } from "../lib/format";
import { fill, strings } from "../lib/page";
import { problemOf } from "../lib/problem";
import type { StoredReceipt } from "../lib/receipts";
import { Failure } from "../lib/ui";

const t = strings("draw");
const texts: Partial<Record<string, string>> = t;

// A million entries are 16 MB.
const downloadSeconds = 300;

async function readEntries(draw: DrawDocument): Promise<Uint8Array> {
  if (!draw.statement) return new Uint8Array();
  const answer = await send("GET", `/draws/${encodeURIComponent(draw.eventId)}/entries`, {
    headers: { Accept: "application/octet-stream" },
    seconds: downloadSeconds,
  });
  if (!answer.ok) throw await problemOf(answer);
  return new Uint8Array(await answer.arrayBuffer());
}

interface CheckProps {
  draw: DrawDocument;
  copies: DrawDocument[];
  receipts: StoredReceipt[];
}

type Done = { verdict: Verdict; of: DrawDocument } | { failure: unknown };

export function Check({ draw, copies, receipts }: CheckProps) {
  const [progress, setProgress] = useState<number>();
  const [done, setDone] = useState<Done>();
  const [more, setMore] = useState("");
  const verify = async () => {
    setProgress(0);
    setDone(undefined);
    try {
      const entries = await readEntries(draw);
      const own = [...receipts.map((r) => r.receipt), more.trim()].filter(Boolean);
      const options = { algorithm: "urr/draw/1", receipts: [...new Set(own)], earlier: copies, progress: setProgress };
      setDone({ verdict: await verifyDraw(draw, entries, options), of: draw });
    } catch (failure) {
      setDone({ failure });
    }
    setProgress(undefined);
  };
  const busy = progress !== undefined;
  return (
    <section class="card" aria-labelledby="check">
      <h2 id="check">{t.check}</h2>
      <p>{t.checkHelp}</p>
      <p>{receipts.length > 0 ? fill(t.ownReceipts, { n: receipts.length }) : t.noReceipts}</p>
      <details>
        <summary>{t.otherReceipt}</summary>
        <label for="receipt-text">{t.receiptText}</label>
        <input id="receipt-text" type="text" autocomplete="off" value={more} onInput={(event) => setMore(event.currentTarget.value)} />
      </details>
      <button type="button" class="wide" disabled={busy} onClick={() => void verify()}>
        {busy ? t.checking : t.verify}
      </button>
      {busy && <progress value={progress} aria-label={t.checking} />}
      <div role="status">{done && <Outcomes done={done} now={draw} />}</div>
    </section>
  );
}

function Outcomes({ done, now }: { done: Done; now: DrawDocument }) {
  if ("failure" in done) return <Failure failure={done.failure} />;
  const { of, verdict } = done;
  if (!verdict.ok) {
    const ofReceipt = verdict.code === "RECEIPT_FORGED" || verdict.code === "RECEIPT_OTHER";
    return (
      <div class="notice bad" id="verdict">
        <p>
          <strong>{ofReceipt ? t.badReceipt : t.bad}</strong>
        </p>
        <p>{texts[verdict.code] ?? verdict.code}</p>
        <p class="muted">
          {verdict.code}: <span lang="en">{verdict.detail}</span>
        </p>
      </div>
    );
  }
  return (
    <>
      <div class="notice good" id="verdict">
        <p>
          <strong>{verdict.report.complete ? t.good : t.goodSoFar}</strong>
        </p>
        <Checked report={verdict.report} />
      </div>
      {of.phase !== now.phase && <p>{t.moved}</p>}
      <Receipts receipts={verdict.report.receipts} />
    </>
  );
}

function Checked({ report }: { report: Report }) {
  const { complete, rootSeenAt, seedWithheld, statement, terms, valueKnown, winners } = report;
  return (
    <ul>
      <li>{t.okTerms}</li>
      {statement && <li>{fill(t.okList, { n: formatNumber(statement.count) })}</li>}
      {valueKnown && terms.beacon && <li>{t.okBeacon}</li>}
      {complete && <li>{fill(t.okWinners, { n: formatNumber(winners) })}</li>}
      {statement && rootSeenAt > 0 && <li>{fill(t.okTime, { time: formatTime(isoTime(rootSeenAt)) })}</li>}
      {statement && rootSeenAt === 0 && terms.beacon && <li>{t.timeClaimed}</li>}
      {statement && !terms.beacon && <li>{t.noBeacon}</li>}
      {seedWithheld && <li>{t.seedWithheld}</li>}
    </ul>
  );
}

const outcomes: Record<Outcome, string> = {
  PENDING: t.outPending,
  ENTERED: t.outEntered,
  WON: t.outWon,
  LOST: t.outLost,
  PLACED: t.outEntered,
  EXCLUDED: t.outExcluded,
  LATE: t.outLate,
};

function Receipts({ receipts }: { receipts: ReceiptReport[] }) {
  if (receipts.length === 0) return null;
  const reasons: Partial<Record<string, string>> = strings("request");
  return (
    <>
      <h3>{t.receipts}</h3>
      <ul class="plain" id="receipts">
        {receipts.map((r) => (
          <li key={r.requestId}>
            <code class="hash">{r.requestId}</code>
            <p>{fill(outcomes[r.outcome], { rank: formatNumber(r.rank), reason: reasons[`excluded${r.reason}`] ?? r.reason })}</p>
          </li>
        ))}
      </ul>
    </>
  );
}
