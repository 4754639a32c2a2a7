// A list that the API returns in pages.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call, follow } from "./api";
import { strings } from "./page";
import type { List } from "./types";
import { Failure, NotLoaded, useLoad } from "./ui";

const common = strings("common");
const limit = 30;

interface PagedProps<T> {
  path: string;
  // Text for an empty list; without it an empty list shows nothing, not even its heading.
  none?: string;
  heading?: ComponentChildren;
  item: (item: T, reload: () => void) => ComponentChildren;
  // An order other than that of the API.
  order?: (items: T[]) => T[];
}

function fetchPage<T>(path: string, cursor: string, signal?: AbortSignal): Promise<List<T>> {
  const after = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
  return call<List<T>>("GET", `${path}${path.includes("?") ? "&" : "?"}limit=${limit}${after}`, signal ? { signal } : {});
}

/** The first page, and a button to load the next one. */
export function Paged<T>({ path, none, heading, item, order = (items) => items }: PagedProps<T>) {
  const first = useLoad((signal) => fetchPage<T>(path, "", signal));
  const [more, setMore] = useState<List<T>>();
  const [failure, setFailure] = useState<unknown>();
  if (first.state !== "ready") return <NotLoaded loaded={first} />;
  const items = [...first.value.items, ...(more?.items ?? [])];
  const cursor = (more ?? first.value).nextCursor;
  const showMore = async () => {
    setFailure(undefined);
    try {
      const next = await fetchPage<T>(path, cursor ?? "");
      setMore({ ...next, items: [...(more?.items ?? []), ...next.items] });
    } catch (cause) {
      if (!follow(cause)) setFailure(cause);
    }
  };
  const reload = () => {
    setMore(undefined);
    first.reload();
  };
  if (items.length === 0) return none === undefined ? null : <p class="card">{none}</p>;
  return (
    <>
      {heading}
      <ul class="cards">{order(items).map((i) => item(i, reload))}</ul>
      {failure !== undefined && <Failure failure={failure} />}
      {cursor && (
        <button type="button" class="quiet" onClick={() => void showMore()}>
          {common.more}
        </button>
      )}
    </>
  );
}
