// The verification of a draw, in the visitor's own browser.

import { useState } from "preact/hooks";
import { call, send } from "../lib/api";
import { isoTime } from "../lib/drawn";
import { algorithm, drawPath, ofLobby } from "../lib/drawsource";
import {
  type DrawCopy,
  type DrawDocument,
  type InclusionProof,
  type Outcome,
  type ReceiptReport,
  type Report,
  type Verdict,
  verifyDraw,
  verifyReceipt,
} from "../lib/fairdraw";
import { networkOf } from "../lib/fairdraw/rounds";
import { formatNumber, formatTime } from "../lib/format";
import { fill, strings } from "../lib/page";
import { Problem, problemOf } from "../lib/problem";
import type { StoredReceipt } from "../lib/receipts";
import { Failure } from "../lib/ui";

const t = strings("draw");
const common = strings("common");
const texts: Partial<Record<string, string>> = t;

const downloadSeconds = 300;
const chunkBytes = 320_000; // 20,000 ids

async function readFile(path: string): Promise<Uint8Array> {
  const answer = await send("GET", path, { headers: { Accept: "application/octet-stream" }, seconds: downloadSeconds });
  if (!answer.ok) throw await problemOf(answer);
  return new Uint8Array(await answer.arrayBuffer());
}

/** The chunks of the entries. The first one that is not full is the last. A shuffle needs all at once. */
async function* readEntries(draw: DrawDocument): AsyncGenerator<Uint8Array> {
  const path = `${drawPath(draw.eventId)}/entries`;
  if (ofLobby) {
    yield await readFile(path);
    return;
  }
  for (let n = 0; ; n++) {
    const chunk = await readFile(`${path}/${n}`);
    yield chunk;
    if (chunk.length !== chunkBytes) return;
  }
}

/** The proof that a request takes part; undefined when it does not. */
async function readProof(draw: DrawDocument, requestId: string): Promise<InclusionProof | undefined> {
  try {
    return await call<InclusionProof>("GET", `${drawPath(draw.eventId)}/proof/${requestId}`);
  } catch (failure) {
    if (failure instanceof Problem && (failure.code === "REQUEST_NOT_FOUND" || failure.code === "LOBBY_NOT_FOUND")) return undefined;
    throw failure;
  }
}

/** Checks the receipts one by one, without the file of all entries; the first fault ends it. */
async function checkReceipts({ draw, readAt, copies, receipts }: CheckProps): Promise<Done> {
  const reports: ReceiptReport[] = [];
  for (const { receipt, requestId } of receipts) {
    const options = { algorithm, receipts: [receipt], earlier: copies, now: readAt };
    const verdict = await verifyReceipt(draw, await readProof(draw, requestId), options);
    if (!verdict.ok) return { verdict, of: draw };
    reports.push(...verdict.report.receipts);
  }
  return { receipts: reports };
}

interface CheckProps {
  draw: DrawDocument;
  /** When it was read, in ms. */
  readAt: number;
  copies: DrawCopy[];
  receipts: StoredReceipt[];
}

type Done = { verdict: Verdict; of: DrawDocument } | { receipts: ReceiptReport[] } | { failure: unknown };

export function Check(props: CheckProps) {
  const { draw, readAt, copies, receipts } = props;
  const [progress, setProgress] = useState<number>();
  const [done, setDone] = useState<Done>();
  const [more, setMore] = useState("");
  const run = async (check: () => Promise<Done>) => {
    setProgress(0);
    setDone(undefined);
    setDone(await check().catch((failure: unknown) => ({ failure })));
    setProgress(undefined);
  };
  const verify = async (): Promise<Done> => {
    const own = [...receipts.map((r) => r.receipt), more.trim()].filter(Boolean);
    const options = { algorithm, receipts: [...new Set(own)], earlier: copies, now: readAt, progress: setProgress };
    return { verdict: await verifyDraw(draw, readEntries(draw), options), of: draw };
  };
  const busy = progress !== undefined;
  return (
    <section class="card" aria-labelledby="check">
      <h2 id="check">{t.check}</h2>
      <p>{ofLobby ? t.checkLobby : t.checkHelp}</p>
      <p>{receipts.length > 0 ? fill(t.ownReceipts, { n: receipts.length }) : t.noReceipts}</p>
      <details>
        <summary>{t.otherReceipt}</summary>
        <label for="receipt-text">{t.receiptText}</label>
        <input id="receipt-text" type="text" autocomplete="off" value={more} onInput={(event) => setMore(event.currentTarget.value)} />
      </details>
      <button type="button" class="wide" disabled={busy} onClick={() => void run(verify)}>
        {busy ? t.checking : t.verify}
      </button>
      {draw.statement && receipts.length > 0 && (
        <p>
          <button type="button" class="quiet" disabled={busy} onClick={() => void run(() => checkReceipts(props))}>
            {t.verifyOwn}
          </button>
        </p>
      )}
      {busy && <progress value={progress} aria-label={t.checking} />}
      <div role="status">{done && <Outcomes done={done} now={draw} />}</div>
    </section>
  );
}

function Outcomes({ done, now }: { done: Done; now: DrawDocument }) {
  if ("failure" in done) return <Failure failure={done.failure} />;
  if ("receipts" in done) return <Receipts receipts={done.receipts} />;
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
  const unknown = isUnknown(verdict.report);
  return (
    <>
      <div class={unknown ? "notice bad" : "notice good"} id="verdict">
        <p>
          <strong>{verdict.report.complete ? t.good : t.goodSoFar}</strong> {unknown && common.trustsOwner}
        </p>
        <Checked report={verdict.report} />
      </div>
      <Trusted report={verdict.report} />
      {of.phase !== now.phase && <p>{t.moved}</p>}
      <Receipts receipts={verdict.report.receipts} />
    </>
  );
}

/** Whether the beacon is no public network: then its owner may know the numbers beforehand. */
const isUnknown = ({ terms }: Report): boolean => terms.beacon !== undefined && !networkOf(terms.beacon);

function Checked({ report }: { report: Report }) {
  const { complete, rootSeenAt, statement, terms, valueKnown, winners } = report;
  return (
    <ul>
      <li>{t.okTerms}</li>
      {statement && <li>{fill(t.okList, { n: formatNumber(statement.count) })}</li>}
      {valueKnown && terms.beacon && (
        <li>{isUnknown(report) ? t.okChain : fill(t.okBeacon, { network: networkOf(terms.beacon) })}</li>
      )}
      {complete && <li>{ofLobby ? t.okOrder : fill(t.okWinners, { n: formatNumber(winners) })}</li>}
      {statement && rootSeenAt > 0 && <li>{fill(t.okTime, { time: formatTime(isoTime(rootSeenAt)) })}</li>}
    </ul>
  );
}

/** What was not verified. */
function Trusted({ report }: { report: Report }) {
  const { rootSeenAt, seedWithheld, statement, terms } = report;
  if (!statement) return null;
  const claims: string[] = [];
  if (!terms.beacon) claims.push(t.noBeacon);
  else if (rootSeenAt === 0) claims.push(t.timeClaimed);
  if (seedWithheld) claims.push(t.seedWithheld);
  return (
    <>
      {claims.map((claim) => (
        <p class="notice" key={claim}>
          {claim}
        </p>
      ))}
    </>
  );
}

const outcomes: Record<Outcome, string> = {
  PENDING: t.outPending,
  ENTERED: t.outEntered,
  WON: t.outWon,
  LOST: t.outLost,
  PLACED: t.outPlaced,
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
