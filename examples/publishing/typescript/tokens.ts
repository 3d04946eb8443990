// Subject tokens: how an id, which may hold any text, becomes one token of a subject.

import { createHash } from "node:crypto";

export function token(id: string): string {
  if (id === "") return "-";
  if (id === "-") return "=2D";
  const bytes = Buffer.from(id, "utf8");
  let escaped = "";
  for (const byte of bytes) {
    const char = String.fromCharCode(byte);
    escaped += /[A-Za-z0-9_-]/.test(char)
      ? char
      : "=" + byte.toString(16).toUpperCase().padStart(2, "0");
  }
  if (escaped.length <= 64) return escaped;
  return "=h" + createHash("sha256").update(bytes).digest("hex").slice(0, 32);
}
