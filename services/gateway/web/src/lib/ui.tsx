// Pieces that several pages are made of.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { explain, follow, Problem } from "./api";
import { formatDuration } from "./format";
import { fill, strings } from "./page";

const common = strings("common");

type Tone = "info" | "good" | "bad";

/** A message; bad ones are read out at once. */
export function Notice({ tone = "info", children }: { tone?: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {children}
    </div>
  );
}

/** A failure in words, with the number under which operators find it. */
export function Failure({ failure, retry }: { failure: unknown; retry?: (() => void) | undefined }) {
  const reference = failure instanceof Problem && failure.status >= 500 ? failure.body.requestId : undefined;
  return (
    <Notice tone="bad">
      <p>{explain(failure)}</p>
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

/** Moves the focus to the content whenever `key` changes: what had it is gone then, and it would be lost. */
export function useMainFocus(key: unknown): void {
  const last = useRef(key);
  useEffect(() => {
    if (last.current === key) return;
    last.current = key;
    document.getElementById("main")?.focus();
  }, [key]);
}

/** Text for screen readers alone, read out when it changes. */
export function Announce({ text }: { text: string }) {
  return (
    <p class="hidden" role="status" aria-live="polite">
      {text}
    </p>
  );
}

/** The time left until `end` (epoch ms), counted down each second; `onOver` is called once when it is over. */
export function Countdown({ end, onOver }: { end: number; onOver?: () => void }) {
  const [now, setNow] = useState(Date.now);
  const over = useRef(onOver);
  over.current = onOver;
  useEffect(() => {
    const timer = setInterval(() => {
      setNow(Date.now());
      if (Date.now() >= end) {
        clearInterval(timer);
        over.current?.();
      }
    }, 1000);
    return () => clearInterval(timer);
  }, [end]);
  return (
    <span class="countdown" role="timer">
      {formatDuration((end - now) / 1000)}
    </span>
  );
}

export type Loaded<T> =
  | { state: "loading"; reload: () => void }
  | { state: "failed"; failure: unknown; reload: () => void }
  | { state: "ready"; value: T; reload: () => void };

/** Loads something when the page starts; a refusal that sends the visitor elsewhere is followed. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [round, setRound] = useState(0);
  const [result, setResult] = useState<{ value: T } | { failure: unknown } | undefined>();
  useEffect(() => {
    const abort = new AbortController();
    load(abort.signal).then(
      (value) => abort.signal.aborted || setResult({ value }),
      (failure: unknown) => abort.signal.aborted || follow(failure) || setResult({ failure }),
    );
    return () => abort.abort();
  }, [round]);
  const reload = () => {
    setResult(undefined);
    setRound((n) => n + 1);
  };
  if (!result) return { state: "loading", reload };
  if ("failure" in result) return { state: "failed", failure: result.failure, reload };
  return { state: "ready", value: result.value, reload };
}
