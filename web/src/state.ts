/** What is being looked at, kept in the address of the page so that a view can be shared. */
import { METRICS, type Metric } from "./figures";

export interface View {
  process: number; // block
  from: number; // bin
  to: number; // bin; 0: the end
  at: number; // ns since the start of the process: the moment that is explained; -1: that of the peak
  by: Metric;
  lane: number; // -1: all threads
  reversed: boolean;
  icicle: boolean;
  hideLibraries: boolean;
  showWrappers: boolean;
  byLine: boolean;
  search: string;
  focus: string; // path in the tree
  fn: string; // whose callers and callees are shown
  stacks: boolean; // the table lists whole stacks
  filter: string; // of the table
  sort: string; // column, "-" before it: ascending
  site: string; // key of the row that is open
}

export const START: View = {
  process: -1, from: 0, to: 0, at: -1, by: "peak", lane: -1, reversed: false, icicle: true, hideLibraries: false,
  showWrappers: false, byLine: false, search: "", focus: "", fn: "", stacks: false, filter: "", sort: "", site: "",
};

/** Only what differs from the start. */
export function toHash(view: View): string {
  const words = new URLSearchParams();
  for (const key of Object.keys(START) as (keyof View)[])
    if (view[key] !== START[key]) words.set(key, String(view[key]));
  return words.toString();
}

export function fromHash(hash: string): View {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const view: View = { ...START };
  const put = <K extends keyof View>(key: K, value: View[K]) => (view[key] = value);
  for (const key of Object.keys(START) as (keyof View)[]) {
    const text = words.get(key);
    if (text === null) continue;
    const kind = typeof START[key];
    if (kind === "number") {
      const n = Number(text);
      if (Number.isInteger(n)) put(key, n as never);
    } else if (kind === "boolean") put(key, (text === "true") as never);
    else if (key === "by") {
      if ((METRICS as readonly string[]).includes(text)) put("by", text as Metric);
    } else put(key, text as never);
  }
  return view;
}
