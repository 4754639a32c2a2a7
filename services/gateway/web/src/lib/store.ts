// Browser storage of the pages. It may be full or forbidden: then nothing is stored and the page
// still works.

export function readStored(area: Storage, key: string): string {
  try {
    return area.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Stores the value, or removes the key when it is empty. */
export function writeStored(area: Storage, key: string, value: string): void {
  try {
    if (value) area.setItem(key, value);
    else area.removeItem(key);
  } catch {
    // Ignored, see above.
  }
}
