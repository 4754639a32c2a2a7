// Offers of tickets to others: their state in words, and the button to take one back.

import { useAction } from "../lib/action";
import { once } from "../lib/api";
import { formatMoney } from "../lib/format";
import { strings } from "../lib/page";
import type { Transfer } from "../lib/types";
import { Failure } from "../lib/ui";

const t = strings("transfer");

/** Whether somebody may still get the ticket by it. */
export const lasts = ({ status }: Transfer): boolean => status === "OPEN" || status === "AWAITING_PAYMENT";

export const priceText = ({ price, currency }: Transfer): string => (price === 0 ? t.gift : formatMoney(price, currency));

export const TransferBadge = ({ transfer: { status } }: { transfer: Transfer }) => (
  <p class={`badge ${status === "COMPLETED" ? "good" : ""}`}>{t[status]}</p>
);

/** Takes an offer back. While its buyer may have been charged, the API refuses that. */
export function TakeBack({ transferId, done }: { transferId: string; done: (announcement: string) => void }) {
  const { busy, failure, run } = useAction();
  const cancel = () => {
    if (!confirm(t.cancelSure)) return;
    run(
      async () => {
        await once<Transfer>("POST", `/my/transfers/${transferId}/cancel`, { body: {} });
        done(t.cancelled);
      },
      () => undefined,
    );
  };
  return (
    <>
      {failure !== undefined && <Failure failure={failure} />}
      <button type="button" class="quiet" disabled={busy} onClick={cancel}>
        {t.cancel}
      </button>
    </>
  );
}
