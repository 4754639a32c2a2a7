// The page on which the script of Toss Payments runs, on a host that has nothing of the shop. It goes to
// the payment page of Toss, which sends the buyer back to the shop.

import type en from "../../../internal/web/lang/en.json";
import { fill } from "../lib/wait";
import { type Order, orderOf } from "./order";

interface PageData {
  lang: string;
  clientKey: string;
  script: string;
  shop: string;
  strings: (typeof en)["pay"];
}

// https://docs.tosspayments.com/sdk/v2/js
interface TossPayments {
  (clientKey: string): { payment(who: { customerKey: string }): { requestPayment(request: object): Promise<void> } };
  ANONYMOUS: string;
}

declare global {
  interface Window {
    TossPayments?: TossPayments;
  }
}

const element = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;
const page = JSON.parse(element("page").textContent ?? "{}") as PageData;
const t = page.strings;
const again = element<HTMLButtonElement>("continue");

function say(text: string, canContinue: boolean) {
  element("state").textContent = text;
  again.hidden = !canContinue;
  again.disabled = false;
}

function load(): Promise<TossPayments> {
  return new Promise((resolve, reject) => {
    if (window.TossPayments) return resolve(window.TossPayments);
    const script = document.createElement("script");
    script.src = page.script;
    script.onload = () => (window.TossPayments ? resolve(window.TossPayments) : reject(new Error("no script")));
    script.onerror = () => {
      script.remove();
      reject(new Error("the script was not loaded"));
    };
    document.head.append(script);
  });
}

async function pay(order: Order) {
  again.disabled = true;
  element("state").textContent = t.opening;
  try {
    const toss = await load();
    await toss(page.clientKey).payment({ customerKey: toss.ANONYMOUS }).requestPayment({
      method: "CARD", // cards and the wallets that have one
      amount: { currency: "KRW", value: order.amount },
      orderId: order.id,
      orderName: order.name,
      successUrl: order.back,
      failUrl: order.back,
      windowTarget: "self",
    });
  } catch (cause) {
    const code = (cause as { code?: unknown }).code;
    say(typeof code === "string" ? fill(t.refused, { code }) : t.failed, true);
  }
}

function start() {
  const order = orderOf(location.hash, page.shop);
  if (!order) return say(t.incomplete, false);
  element<HTMLAnchorElement>("language").hash = location.hash;
  element<HTMLAnchorElement>("back").href = order.back;
  element("amount").textContent = new Intl.NumberFormat(page.lang, { style: "currency", currency: "KRW" }).format(order.amount);
  element("sum").hidden = false;
  again.onclick = () => void pay(order);
  // Whoever comes back here from the payment page is not to be sent there again.
  const [visit] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  if (visit?.type === "back_forward") say(t.paused, true);
  else void pay(order);
  window.onpageshow = (event) => event.persisted && say(t.paused, true);
}

start();
