// Passes an own ticket on: the form, the link that comes of it, and the open offer.

import { useId, useState } from "preact/hooks";
import { lookAt } from "../checkout/bill";
import { useAction } from "../lib/action";
import { once } from "../lib/api";
import { Copy } from "../lib/copy";
import { formatMoney, formatTime, fromMajor, unitOf } from "../lib/format";
import { fill, strings } from "../lib/page";
import type { Ticket, Transfer } from "../lib/types";
import { Failure, NotLoaded, Notice, useLoad } from "../lib/ui";
import { priceText, TakeBack } from "./offer";

const t = strings("transfer");

interface PassingProps {
  ticket: Ticket;
  reload: (announcement: string) => void;
}

/** What can be done to pass a ticket on, or has been; empty when nothing can. */
export function Passing({ ticket, reload }: PassingProps) {
  // Only the answer to whoever makes an offer has its link.
  const [made, setMade] = useState<Transfer>();
  const [open, setOpen] = useState(false);
  const { reason, transferId } = ticket.transferable;
  const offer = transferId ?? (made && !reason ? made.transferId : undefined);
  const cancelled = (text: string) => {
    setMade(undefined);
    reload(text);
  };
  if (offer) {
    const link = made?.transferId === offer ? made.claimUrl : undefined;
    return (
      <>
        {link && <Link path={link} />}
        <Offered key={offer} transferId={offer} done={cancelled} />
      </>
    );
  }
  if (reason) return null;
  const offered = (transfer: Transfer) => {
    setOpen(false);
    setMade(transfer);
    reload(t.made);
  };
  if (open) return <Form ticket={ticket} offered={offered} close={() => setOpen(false)} />;
  return (
    <button type="button" class="quiet" onClick={() => setOpen(true)}>
      {t.pass}
    </button>
  );
}

interface FormProps {
  ticket: Ticket;
  offered: (transfer: Transfer) => void;
  close: () => void;
}

function Form({ ticket, offered, close }: FormProps) {
  const { busy, failure, run } = useAction();
  const id = useId();
  const { currency, transferable } = ticket;
  const max = transferable.maxPrice;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const price = fromMajor(String(form.get("price") ?? ""), currency);
    const body = { price, toUserId: String(form.get("to")).trim() };
    run(async () => offered(await once<Transfer>("POST", `/my/tickets/${ticket.ticketId}/transfers`, { body })), () => undefined);
  };
  return (
    <form class="pass" onSubmit={submit} aria-label={t.pass}>
      {max === 0 && <p>{t.giftOnly}</p>}
      {max > 0 && (
        <>
          <label for={`${id}-price`}>{fill(t.price, { currency, max: formatMoney(max, currency) })}</label>
          <input
            id={`${id}-price`}
            name="price"
            type="number"
            inputMode="decimal"
            required
            min={0}
            max={max / unitOf(currency)}
            step={1 / unitOf(currency)}
            defaultValue="0"
            aria-describedby={`${id}-help`}
          />
          <p id={`${id}-help`} class="muted">
            {t.priceHelp}
          </p>
        </>
      )}
      <label for={`${id}-to`}>{t.to}</label>
      <input id={`${id}-to`} name="to" maxLength={63} autocomplete="off" autocapitalize="none" spellcheck={false} aria-describedby={`${id}-who`} />
      <p id={`${id}-who`} class="muted">
        {t.toHelp}
      </p>
      {failure !== undefined && <Failure failure={failure} />}
      <p class="actions">
        <button type="submit" disabled={busy}>
          {t.make}
        </button>
        <button type="button" class="quiet" disabled={busy} onClick={close}>
          {t.close}
        </button>
      </p>
    </form>
  );
}

/** The link of an offer, to be copied or shared. */
function Link({ path }: { path: string }) {
  const id = useId();
  const url = new URL(path, location.origin).href;
  // It exists only in secure contexts, and not in every browser.
  const share: ((data: ShareData) => Promise<void>) | undefined = navigator.share?.bind(navigator);
  return (
    <>
      <Notice tone="good">{t.made}</Notice>
      <label for={id}>{t.link}</label>
      <input id={id} class="link" readOnly value={url} onFocus={(event) => event.currentTarget.select()} />
      <p class="actions">
        <Copy text={url} label={t.copy} done={t.copied} />
        {share && (
          <button type="button" class="quiet" onClick={() => void share({ url }).catch(() => undefined)}>
            {t.share}
          </button>
        )}
      </p>
    </>
  );
}

/** The open offer of a ticket, which can be taken back. */
function Offered({ transferId, done }: { transferId: string; done: (announcement: string) => void }) {
  const loaded = useLoad((signal) => lookAt({ transferId }, signal));
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  const transfer = loaded.value;
  return (
    <div class="offered">
      <p>
        <strong>{priceText(transfer)}</strong>
        {transfer.toUserId && <> · {fill(t.onlyFor, { user: transfer.toUserId })}</>}
      </p>
      <p class="muted">{transfer.status === "AWAITING_PAYMENT" ? t.waits : fill(t.offered, { time: formatTime(transfer.deadline) })}</p>
      <TakeBack transferId={transferId} done={done} />
    </div>
  );
}
