// What the page of the payments' host is opened for: the fragment of its address.

export interface Order {
  id: string;
  amount: number;
  // What is paid for.
  name: string;
  // Where the buyer comes back: the token proves the payment.
  back: string;
}

/** The order of a fragment; undefined for a fragment that the shop has not made. */
export function orderOf(fragment: string, shop: string): Order | undefined {
  const what = new URLSearchParams(fragment.replace(/^#/, ""));
  const [id, amount, name, token] = ["order", "amount", "name", "token"].map((key) => what.get(key) ?? "") as [string, string, string, string];
  if (!/^[\w-]{6,64}$/.test(id) || !/^[1-9]\d{0,14}$/.test(amount) || !name.trim() || !/^\w{16,64}$/.test(token)) return undefined;
  // Toss adds parameters to the address, and to no other host: the fragment cannot name one.
  const back = `${shop}/api/v1/payments/return/toss?${new URLSearchParams({ order: id, token })}`;
  return { id, amount: Number(amount), name, back };
}
