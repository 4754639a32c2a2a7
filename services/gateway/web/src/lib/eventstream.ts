// Reads server-sent events (WHATWG HTML, "Server-sent events") by fetch, since an EventSource sends no
// headers. No imports.

export interface ServerEvent {
  // "" of a message without a name.
  name: string;
  id: string;
  data: string;
}

/** Splits the text of a stream into its events. One that is cut off is none. */
export class EventParser {
  private rest = "";
  private event: ServerEvent = { name: "", id: "", data: "" };

  /** Takes the next part of the text, and returns the events that it completes. */
  push(text: string): ServerEvent[] {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    const complete: ServerEvent[] = [];
    for (const line of lines) {
      const colon = line.indexOf(": ");
      const value = line.slice(colon + 2);
      if (line === "") {
        if (this.event.data) complete.push(this.event);
        this.event = { name: "", id: "", data: "" };
      } else if (line.startsWith("event: ")) this.event.name = value;
      else if (line.startsWith("id: ")) this.event.id = value;
      else if (line.startsWith("data: ")) this.event.data += value;
    }
    return complete;
  }
}

/**
 * Calls `got` with the events of a response until it ends, or is aborted. `alive` is called with every
 * part that arrives, heartbeats too. A connection that breaks is an end.
 */
export async function readEvents(answer: Response, got: (event: ServerEvent) => void, alive: () => void): Promise<void> {
  const reader = answer.body?.getReader();
  if (!reader) return;
  const parser = new EventParser();
  const decoder = new TextDecoder();
  for (;;) {
    let part: ReadableStreamReadResult<Uint8Array>;
    try {
      part = await reader.read();
    } catch {
      return;
    }
    if (part.done) return;
    alive();
    parser.push(decoder.decode(part.value, { stream: true })).forEach(got);
  }
}
