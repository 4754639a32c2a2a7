import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { orderOf } from "../src/pay/order";

const shop = "https://shop.test";
const good = "#amount=55000&name=Concert%3A+A-1-1&order=0190f5e7-0000-7000-8000-000000000000&token=ABCDEFGHIJKLMNOPQRSTUVWXYZ";

test("the fragment says what is paid, and the shop's address where the buyer comes back", () => {
  deepEqual(orderOf(good, shop), {
    id: "0190f5e7-0000-7000-8000-000000000000",
    amount: 55000,
    name: "Concert: A-1-1",
    back: `${shop}/api/v1/payments/return/toss?order=0190f5e7-0000-7000-8000-000000000000&token=ABCDEFGHIJKLMNOPQRSTUVWXYZ`,
  });
});

test("no fragment leads to another site", () => {
  for (const more of ["&shop=https://evil.test", "&back=https://evil.test", "&successUrl=https://evil.test", "&script=https://evil.test"]) {
    deepEqual(orderOf(good + more, shop), orderOf(good, shop));
  }
  for (const [from, to] of [
    ["order=0190f5e7", "order=@evil.test/0190f5e7"],
    ["order=0190f5e7", "order=../0190f5e7"],
    ["order=0190f5e7", "order=a%26b=0190f5e7"],
    ["token=ABC", "token=%23ABC"],
    ["token=ABC", "token=A%26orderId=BC"],
    ["amount=55000", "amount=-1"],
    ["amount=55000", "amount=0"],
    ["amount=55000", "amount=1e9"],
    ["amount=55000", "amount="],
    ["name=Concert%3A+A-1-1", "name=+"],
  ] as const) {
    equal(orderOf(good.replace(from, to), shop), undefined, to);
  }
  for (const fragment of ["", "#", "#order=x"]) equal(orderOf(fragment, shop), undefined);
});
