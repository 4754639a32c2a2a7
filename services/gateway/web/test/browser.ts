// What the modules of the pages expect of a browser. Imported first, since they read it when they are
// loaded.

import en from "../../internal/web/lang/en.json";

const data = JSON.stringify({ page: "test", lang: "en", devLogin: false, provider: false, clock: "", strings: en });

Object.assign(globalThis, {
  document: { getElementById: () => ({ textContent: data }) },
  location: new URL("https://tickets.example/login"),
  // Its timers never end.
  Worker: class {
    postMessage(): void {}
  },
});
