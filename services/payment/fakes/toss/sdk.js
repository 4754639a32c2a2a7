// Stands in for https://js.tosspayments.com/v2/standard (docs.tosspayments.com/sdk/v2/js), as far as pages
// need that go to the payment page in the same window.
(() => {
  const server = new URL(document.currentScript.src).origin;
  const TossPayments = (clientKey) => ({
    payment: ({ customerKey }) => ({
      requestPayment: async (request) => {
        // Sent as text: a browser asks for no permission before.
        const response = await fetch(`${server}/sdk/payments`, { method: "POST", body: JSON.stringify({ ...request, clientKey, customerKey }) });
        const answer = await response.json();
        if (!response.ok) throw Object.assign(new Error(answer.message), { code: answer.code });
        location.assign(answer.url);
      },
    }),
  });
  TossPayments.ANONYMOUS = "@@ANONYMOUS";
  window.TossPayments = TossPayments;
})();
