import "./browser";
import { equal } from "node:assert/strict";
import { test } from "node:test";
import { formatMoney, fromMajor } from "../src/lib/format";

// Intl separates a code from the amount by a space that does not break.
const plain = (text: string) => text.replaceAll(/[\u00a0\u202f]/g, " ");

test("amounts have the digits of ISO 4217, whatever the browser's are", () => {
  equal(plain(formatMoney(55000, "KRW")), "₩55,000");
  equal(plain(formatMoney(1999, "USD")), "$19.99");
  equal(plain(formatMoney(1500, "IQD")), "IQD 1.500");
  equal(plain(formatMoney(123450, "RSD")), "RSD 1,234.50");
  equal(plain(formatMoney(12345, "CLF")), "CLF 1.2345");
});

test("what is typed is an amount in the minor unit", () => {
  equal(fromMajor("55000", "KRW"), 55000);
  equal(fromMajor("19.99", "USD"), 1999);
  equal(fromMajor("1.005", "KWD"), 1005);
  equal(fromMajor("", "USD"), 0);
});
