// Components shared by several pages.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { explain, follow, Problem } from "./api";
import { formatDuration } from "./format";
import { setHeading } from "./frame";
import { serverNow } from "./now";
import { repeat, untilVisible } from "./pace";
import { fill, strings } from "./page";

const common = strings("common");

type Tone = "info" | "good" | "warn" | "bad";

/** A message; bad ones are announced at once. */
export function Notice({ tone = "info", children }: { tone?: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {children}
    </div>
  );
}

/** Sets the page's heading and title, unless empty, no later than the content that is rendered with it. */
export function useHeading(text: string): void {
  useLayoutEffect(() => {
    if (text) setHeading(text);
  }, [text]);
}

interface FailureProps {
  failure: unknown;
  retry?: (() => void) | undefined;
  // Whether the page retries by itself.
  retrying?: boolean;
}

/** The text of a failure, with a reference for operators. */
export function Failure({ failure, retry, retrying = false }: FailureProps) {
  const reference = failure instanceof Problem && failure.status >= 500 ? failure.body.requestId : undefined;
  const unknown = failure instanceof Problem && ["EVENT_NOT_FOUND", "CAMPAIGN_NOT_FOUND", "PROMOTION_NOT_FOUND"].includes(failure.code);
  return (
    <Notice tone="bad">
      <p>
        {explain(failure)} {retrying && common.retrying}
      </p>
      {unknown && (
        <p>
          <a href="/">{common.toEvents}</a>
        </p>
      )}
      {reference && <p class="muted">{fill(common.reference, { id: reference })}</p>}
      {retry && (
        <button type="button" class="quiet" onClick={retry}>
          {common.tryAgain}
        </button>
      )}
    </Notice>
  );
}

export function Loading() {
  return (
    <p class="muted" role="status">
      {common.loading}
    </p>
  );
}

/** Moves the focus to the content when `key` changes: the focused element is gone then. */
export function useMainFocus(key: unknown): void {
  const last = useRef(key);
  useEffect(() => {
    if (last.current === key) return;
    last.current = key;
    document.getElementById("main")?.focus();
  }, [key]);
}

/** Text for screen readers only, announced when it changes. */
export function Announce({ text }: { text: string }) {
  return (
    <span class="hidden" role="status" aria-live="polite">
      {text}
    </span>
  );
}

/**
 * The time until `end` (epoch ms) by the clock of the server. Its last minute is highlighted, and
 * `warning` is announced.
 */
export function Countdown({ end, warning = "" }: { end: number; warning?: string }) {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), 1000);
    return () => clearInterval(timer);
  }, [end]);
  const left = (end - now) / 1000;
  const soon = warning !== "" && left < 60;
  return (
    <>
      <span class={soon ? "countdown soon" : "countdown"} role="timer">
        {formatDuration(left)}
      </span>
      {warning && <Announce text={soon ? warning : ""} />}
    </>
  );
}

export type Loaded<T> =
  | { state: "loading"; reload: () => void }
  | { state: "failed"; failure: unknown; retrying: boolean; reload: () => void }
  | { state: "ready"; value: T; reload: () => void };

/**
 * Loads a value at the start. Errors that send the visitor elsewhere are followed, temporary
 * failures retried. `again` returns the seconds until the value is reloaded, while the page is
 * visible; the old value stays until then.
 */
export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  again: (value: T) => number | undefined = () => undefined,
): Loaded<T> {
  const [round, setRound] = useState(0);
  const [result, setResult] = useState<{ value: T } | { failure: unknown; retrying: boolean } | undefined>();
  useEffect(() => {
    const abort = new AbortController();
    let loaded = false;
    const attempt = async () => {
      if (loaded) await untilVisible(abort.signal);
      loaded = true;
      const value = await load(abort.signal);
      if (abort.signal.aborted) return undefined;
      setResult({ value });
      return again(value);
    };
    const failed = (failure: unknown, retryIn: number | undefined) => {
      if (follow(failure)) return;
      const retrying = retryIn !== undefined;
      // A loaded value stays: replacing it by an error would lose the choice of the visitor.
      setResult((last) => (retrying && last && "value" in last ? last : { failure, retrying }));
    };
    void repeat(attempt, failed, abort.signal);
    return () => abort.abort();
  }, [round]);
  const reload = () => setRound((n) => n + 1);
  if (!result) return { state: "loading", reload };
  if ("failure" in result) return { state: "failed", ...result, reload };
  return { state: "ready", value: result.value, reload };
}

/** Shown in place of a value that is not loaded. */
export function NotLoaded<T>({ loaded }: { loaded: Exclude<Loaded<T>, { state: "ready" }> }) {
  if (loaded.state === "loading") return <Loading />;
  return <Failure failure={loaded.failure} retry={loaded.reload} retrying={loaded.retrying} />;
}
