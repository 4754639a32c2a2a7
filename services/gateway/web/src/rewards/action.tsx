// The button of a campaign, with the outcome of its call.

import { useState } from "preact/hooks";
import { follow } from "../lib/api";
import { loginPath, strings } from "../lib/page";
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
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const act = async () => {
    setBusy(true);
    setFailure(undefined);
    try {
      done(await send());
    } catch (cause) {
      if (follow(cause)) return;
      setFailure(cause);
      done();
    }
    setBusy(false);
  };
  // A lost call that took effect needs no explanation: the page shows what it did.
  const shown = failure !== undefined && (possible || !isLost(failure));
  return (
    <>
      {shown && <Failure failure={failure} />}
      {shown && isLost(failure) && <Notice>{t.lost}</Notice>}
      {possible && (
        <button type="button" class="wide" disabled={busy} onClick={() => void act()}>
          {busy ? busyLabel : label}
        </button>
      )}
    </>
  );
}

/** The link to sign in, for a campaign that can still be taken part in. */
export function SignIn({ campaign }: { campaign: Campaign }) {
  if (campaign.status !== "OPEN" && campaign.status !== "SCHEDULED") return null;
  return (
    <>
      <p>
        <a class="button wide" href={loginPath()}>
          {t.signIn}
        </a>
      </p>
      <p class="muted">{t.signInHelp}</p>
    </>
  );
}
