// Numbers, sizes, durations and moments as people read them.
const whole = new Intl.NumberFormat("en-GB");
const short = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });

export const number = (n) => (n === null || n === undefined ? "–" : whole.format(n));

export const count = (n, noun) => `${whole.format(n)} ${noun}${n === 1 ? "" : "s"}`;

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return `${short.format(n)} ${units[i]}`;
}

export function rate(n) {
  if (n === null || n === undefined) return "–";
  return `${n < 10 ? short.format(n) : whole.format(Math.round(n))}/s`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = ms / 1000;
  if (s < 60) return `${short.format(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const two = (n) => String(n).padStart(2, "0");

export function moment(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const d = new Date(ms);
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  const ofDay = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return `${day} ${ofDay}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

export const clock = (ms) => { const d = new Date(ms); return `${two(d.getHours())}:${two(d.getMinutes())}`; };

export const ago = (ms) => `${duration(Math.max(0, Date.now() - ms))} ago`;

// A key or value on one line; JSON is written compactly.
export function line(value, most = 200) {
  if (value === null || value === undefined) return "null";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

export function hex(base64) {
  const data = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const rows = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = [...data.slice(at, at + 16)];
    const codes = part.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const text = part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : "·")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${codes}  ${text}`);
  }
  return rows.join("\n");
}
