// Canonical JSON (RFC 8785) of objects of strings, integers and objects.

export type Value = string | number | { [member: string]: Value };

export function canonical(value: Value): string {
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name] as Value)}`).join(",")}}`;
}

/** Whether a value has the right form. */
export type Form = (value: unknown) => boolean;

export const isText: Form = (value) => typeof value === "string";
export const isInteger: Form = (value) => Number.isSafeInteger(value);

/**
 * Reads the canonical text of an object with these members and no others; `optional` ones may be
 * absent. Undefined for any other text.
 */
export function parseCanonical(text: string, forms: Record<string, Form>, optional: string[] = []): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!hasForm(value, forms, optional) || canonical(value as Value) !== text) return undefined;
  return value;
}

export function hasForm(value: unknown, forms: Record<string, Form>, optional: string[] = []): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const members = value as Record<string, unknown>;
  const known = Object.keys(members).every((name) => Object.hasOwn(forms, name));
  return known && Object.entries(forms).every(([name, form]) =>
    Object.hasOwn(members, name) ? form(members[name]) : optional.includes(name),
  );
}
