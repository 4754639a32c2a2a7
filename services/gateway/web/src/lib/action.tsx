// What a visitor does with a button: the call it makes, and the link to sign in for it.

import { useState } from "preact/hooks";
import { follow } from "./api";
import { loginPath } from "./onward";
import { strings } from "./page";

const common = strings("common");

interface Action {
  // Whether the call is running.
  busy: boolean;
  // The failure of the last call, until the next one.
  failure: unknown;
  // Runs a call. Errors that send the visitor elsewhere are followed; `failed` is called after all
  // others.
  run: (call: () => Promise<void>, failed: () => void) => void;
}

/** The state of a button that makes a call. */
export function useAction(): Action {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const run = async (call: () => Promise<void>, failed: () => void) => {
    setBusy(true);
    setFailure(undefined);
    try {
      await call();
    } catch (cause) {
      if (follow(cause)) return;
      setFailure(cause);
      failed();
    }
    setBusy(false);
  };
  return { busy, failure, run: (call, failed) => void run(call, failed) };
}

/** A link to sign in that returns to this page. */
export function SignInLink({ label }: { label: string }) {
  return (
    <>
      <p>
        <a class="button wide" href={loginPath()}>
          {label}
        </a>
      </p>
      <p class="muted">{common.signInHelp}</p>
    </>
  );
}
