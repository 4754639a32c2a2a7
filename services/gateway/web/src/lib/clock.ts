// Timers that run in a worker, see clock.worker.ts. No imports: the single-file page uses it too.

export class Clock {
  private last = 0;
  private readonly waiting = new Map<number, () => void>();

  constructor(private readonly worker: Worker) {
    worker.onmessage = (message: MessageEvent<number>) => {
      const done = this.waiting.get(message.data);
      this.waiting.delete(message.data);
      done?.();
    };
  }

  /** Resolves after `seconds`, or at once when the signal is aborted. */
  wait(seconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const id = ++this.last;
      this.waiting.set(id, resolve);
      signal?.addEventListener("abort", () => resolve(), { once: true });
      this.worker.postMessage({ id, ms: Math.max(0, seconds * 1000) });
    });
  }
}
