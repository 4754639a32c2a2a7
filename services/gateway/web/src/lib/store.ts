// What a page remembers in the browser. Storage may be full or forbidden: then it remembers nothing and works on.

export function recall(area: Storage, key: string): string {
  try {
    return area.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Keeps the value, or forgets the key when it is empty. */
export function remember(area: Storage, key: string, value: string): void {
  try {
    if (value) area.setItem(key, value);
    else area.removeItem(key);
  } catch {
    // See above.
  }
}
