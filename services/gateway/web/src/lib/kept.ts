// Values that stay the same while a page is shown, such as titles.

import { useEffect, useState } from "preact/hooks";
import { repeat } from "./pace";

export type Read<T> = (id: string) => Promise<T>;

/** Returns a function that reads each value once; after a failure the next call reads it again. */
export function readOnce<T>(read: Read<T>): Read<T> {
  const values = new Map<string, Promise<T>>();
  return (id) => {
    const known = values.get(id);
    if (known) return known;
    const value = read(id);
    values.set(id, value);
    value.catch(() => values.delete(id));
    return value;
  };
}

/** The value that `read` returns, or undefined until it is there. Temporary failures are retried. */
export function useRead<T>(read: Read<T>, id: string): T | undefined {
  const [value, setValue] = useState<T>();
  useEffect(() => {
    const abort = new AbortController();
    const attempt = async () => {
      const found = await read(id);
      if (!abort.signal.aborted) setValue(found);
    };
    void repeat(attempt, () => undefined, abort.signal);
    return () => abort.abort();
  }, [id]);
  return value;
}
