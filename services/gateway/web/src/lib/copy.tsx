// A button that copies a text.

import { useState } from "preact/hooks";

/** The clipboard exists only in secure contexts (https); else there is no button, and the text can be selected. */
export function Copy({ text, label, done }: { text: string; label: string; done: string }) {
  const [copied, setCopied] = useState(false);
  const clipboard: Clipboard | undefined = navigator.clipboard;
  const copy = () => void clipboard?.writeText(text).then(() => setCopied(true), () => setCopied(false));
  return (
    <>
      {clipboard && (
        <button type="button" class="quiet" onClick={copy}>
          {label}
        </button>
      )}
      <span role="status"> {copied ? done : ""}</span>
    </>
  );
}
