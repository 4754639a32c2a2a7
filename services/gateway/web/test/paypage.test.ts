import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

/** The elements of the page, by id. */
const elements: Record<string, Record<string, unknown>> = {};
for (const id of ["page", "state", "continue", "language", "back", "amount", "sum"]) elements[id] = { hidden: true };
const strings = { opening: "opening", refused: "refused {code}", failed: "failed", paused: "paused" };
const data = { lang: "en", clientKey: "test_ck", script: "https://js.test/v2", shop: "https://shop.test", strings };
elements.page!.textContent = JSON.stringify(data);

const requests: unknown[] = [];
let answer: Promise<void> = Promise.resolve();
const loaded: string[] = [];

/** What the vendor's script makes. */
function TossPayments(clientKey: string) {
  return {
    payment: ({ customerKey }: { customerKey: string }) => ({
      requestPayment: (request: object) => {
        requests.push({ clientKey, customerKey, ...request });
        return answer;
      },
    }),
  };
}
TossPayments.ANONYMOUS = "@@ANONYMOUS";

const order = "0190f5e7-0000-7000-8000-000000000000";
const page = { onpageshow: (_: { persisted: boolean }) => undefined as unknown } as Record<string, unknown>;
Object.assign(globalThis, {
  window: page,
  location: { hash: `#order=${order}&amount=55000&name=Concert%3A+A-1-1&token=ABCDEFGHIJKLMNOPQRSTUVWXYZ` },
  document: {
    getElementById: (id: string) => elements[id],
    createElement: () => ({ remove: () => undefined }),
    head: {
      append: (script: { src: string; onload: () => void }) => {
        loaded.push(script.src);
        page.TossPayments = TossPayments;
        script.onload();
      },
    },
  },
});
performance.getEntriesByType = () => [{ type: "navigate" }] as never;

const settled = () => new Promise((resolve) => setTimeout(resolve));

test("the page goes to the payment page, says why it cannot, and tries again", async () => {
  answer = Promise.reject(Object.assign(new Error("?"), { code: "INVALID_PARAMETER" }));
  await import("../src/pay/toss");
  await settled();
  const back = `https://shop.test/api/v1/payments/return/toss?order=${order}&token=ABCDEFGHIJKLMNOPQRSTUVWXYZ`;
  const request = {
    clientKey: "test_ck",
    customerKey: "@@ANONYMOUS",
    method: "CARD",
    amount: { currency: "KRW", value: 55000 },
    orderId: order,
    orderName: "Concert: A-1-1",
    successUrl: back,
    failUrl: back,
    windowTarget: "self",
  };
  deepEqual(requests, [request]);
  deepEqual(loaded, ["https://js.test/v2"]);
  equal(elements.state!.textContent, "refused INVALID_PARAMETER");
  equal(elements.continue!.hidden, false);
  equal(elements.back!.href, back);
  equal(elements.language!.hash, (globalThis as unknown as { location: { hash: string } }).location.hash);
  equal(elements.amount!.textContent, "₩55,000");
  answer = new Promise(() => undefined); // the browser leaves
  (elements.continue!.onclick as () => void)();
  await settled();
  deepEqual(requests, [request, request]);
  equal(loaded.length, 1, "the script is loaded once");
  equal(elements.continue!.disabled, true);
  (page.onpageshow as (event: { persisted: boolean }) => void)({ persisted: true });
  equal(elements.state!.textContent, "paused", "back from the payment page");
  equal(elements.continue!.disabled, false);
});
