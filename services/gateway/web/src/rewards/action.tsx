// The button of a campaign, with the outcome of its call.

import { SignInLink, useAction } from "../lib/action";
import { strings } from "../lib/page";
import type { Campaign, Entry } from "../lib/types";
import { Failure, Notice } from "../lib/ui";
import { isLost } from "./part";

const t = strings("campaign");

interface ActionProps {
  // Whether the visitor may take part now.
  possible: boolean;
  label: string;
  busyLabel: string;
  send: () => Promise<Entry>;
  // Called after each call, whatever its outcome.
  done: (entry?: Entry) => void;
}

export function Action({ possible, label, busyLabel, send, done }: ActionProps) {
  const { busy, failure, run } = useAction();
  const act = () => run(async () => done(await send()), done);
  // A lost call that took effect needs no explanation: the page shows what it did.
  const shown = failure !== undefined && (possible || !isLost(failure));
  return (
    <>
      {shown && <Failure failure={failure} />}
      {shown && isLost(failure) && <Notice>{t.lost}</Notice>}
      {possible && (
        <button type="button" class="wide" disabled={busy} onClick={act}>
          {busy ? busyLabel : label}
        </button>
      )}
    </>
  );
}

/** The link to sign in, for a campaign that can still be taken part in. */
export function SignIn({ campaign }: { campaign: Campaign }) {
  if (campaign.status !== "OPEN" && campaign.status !== "SCHEDULED") return null;
  return <SignInLink label={t.signIn} />;
}
