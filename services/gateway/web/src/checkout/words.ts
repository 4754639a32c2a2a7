// The words of a payment.

import { type Catalogue, page, strings } from "../lib/page";

/** Where no tickets are paid, the page has some words of its own ("joining"). */
export const words: Catalogue["checkout"] = { ...strings("checkout"), ...page.strings.joining };
