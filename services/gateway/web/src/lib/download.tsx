// A file that the page itself has, to save.

import { useMemo } from "preact/hooks";

interface DownloadProps {
  name: string;
  type: "text/plain" | "application/json";
  text: string;
  label: string;
}

export function Download({ name, type, text, label }: DownloadProps) {
  const href = useMemo(() => `data:${type};charset=utf-8,${encodeURIComponent(text)}`, [type, text]);
  return (
    <a download={name} href={href}>
      {label}
    </a>
  );
}
