/** Choosing a range of time on a plot whose horizontal axis is that of the bins. */
import type uPlot from "uplot";
import type { Process } from "./data";
import type { Range } from "./figures";

type Bins = Process["page"]["bins"];

/** Draws what is chosen. */
export function showRange(u: uPlot, bins: Bins, range: Range, whole: boolean): void {
  const left = u.valToPos(bins.start_ns + range.from * bins.width_ns, "x");
  const right = u.valToPos(bins.start_ns + range.to * bins.width_ns, "x");
  u.setSelect(whole ? { left: 0, width: 0, top: 0, height: 0 } : { left, width: right - left, top: 0, height: u.over.clientHeight }, false);
}

/** The bins under what was dragged over, at least one; null when it was a click. */
export function draggedRange(u: uPlot, bins: Bins): Range | null {
  if (u.select.width < 2) return null;
  const at = (left: number) => Math.round((u.posToVal(left, "x") - bins.start_ns) / bins.width_ns);
  const from = Math.max(0, Math.min(bins.count - 1, at(u.select.left)));
  return { from, to: Math.max(from + 1, Math.min(bins.count, at(u.select.left + u.select.width))) };
}
