/** Numbers as people read them. Sizes are powers of 1024, as everywhere in mallow. */

const SIZES = ["B", "KB", "MB", "GB", "TB", "PB"];

function short(value: number): string {
  const a = Math.abs(value);
  return value.toFixed(a >= 100 || Number.isInteger(value) ? 0 : a >= 10 ? 1 : 2);
}

export function bytes(value: number): string {
  let step = 0;
  let v = value;
  while (Math.abs(v) >= 1023.5 && step < SIZES.length - 1) {
    v /= 1024;
    step++;
  }
  return `${step === 0 ? Math.round(v) : short(v)} ${SIZES[step]}`;
}

export function count(value: number): string {
  const a = Math.abs(value);
  if (a < 10000) return exact(value);
  for (const [limit, unit] of [[1e6, "k"], [1e9, "M"], [1e12, "G"]] as const)
    if (a < limit * 0.9995) return `${short(value / (limit / 1000))} ${unit}`;
  return `${short(value / 1e12)} T`;
}

const TIMES: [number, string][] = [[1e3, "ns"], [1e6, "µs"], [1e9, "ms"], [60e9, "s"], [3600e9, "min"], [Infinity, "h"]];

export function duration(ns: number): string {
  const a = Math.abs(ns);
  let unit = 1;
  for (const [limit, name] of TIMES) {
    if (a < limit) return `${short(ns / unit)} ${name}`;
    unit = limit;
  }
  return "";
}

/** Bytes times time: what memory costs. */
export function byteSeconds(byteNs: number): string {
  return `${bytes(byteNs / 1e9)}·s`;
}

/** Every digit, in groups of three. */
export function exact(value: number): string {
  const n = Math.round(value);
  if (!Number.isSafeInteger(n)) return n.toLocaleString("en-US");
  // By hand: toLocaleString() takes ten times as long, and a page has thousands of these.
  const digits = String(Math.abs(n));
  let out = digits.slice(0, digits.length % 3 || 3);
  for (let i = out.length; i < digits.length; i += 3) out += `,${digits.slice(i, i + 3)}`;
  return n < 0 ? `-${out}` : out;
}

export function percent(part: number, whole: number): string {
  if (!whole) return "";
  const p = (100 * part) / whole;
  return `${p !== 0 && Math.abs(p) < 0.1 ? (p > 0 ? "<0.1" : "-<0.1") : p.toFixed(1)} %`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
