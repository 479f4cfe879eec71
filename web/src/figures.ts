/** What each row did in a range of bins: the same figures as `mallow report --time`. */
import type { Process } from "./data";

export interface Range {
  from: number; // bin
  to: number; // bin, not included
}

export const METRICS = ["peak", "end", "growth", "allocated", "temporary", "calls", "byteNs"] as const;
export type Metric = (typeof METRICS)[number];

export interface Figures {
  calls: number;
  allocated: number;
  temporary: number;
  peak: number;
  peakBlocks: number;
  start: number;
  startBlocks: number;
  end: number;
  endBlocks: number;
  byteNs: number;
}

export function noFigures(): Figures {
  return { calls: 0, allocated: 0, temporary: 0, peak: 0, peakBlocks: 0, start: 0, startBlocks: 0, end: 0, endBlocks: 0, byteNs: 0 };
}

export function addFigures(sum: Figures, f: Figures): void {
  sum.calls += f.calls;
  sum.allocated += f.allocated;
  sum.temporary += f.temporary;
  sum.peak += f.peak;
  sum.peakBlocks += f.peakBlocks;
  sum.start += f.start;
  sum.startBlocks += f.startBlocks;
  sum.end += f.end;
  sum.endBlocks += f.endBlocks;
  sum.byteNs += f.byteNs;
}

export function metricOf(f: Figures, by: Metric): number {
  return by === "growth" ? f.end - f.start : f[by];
}

/** The bin in which most bytes were live, the first of several. */
export function peakBin(p: Process, range: Range): number {
  const max = p.page.bins.max_bytes;
  let best = range.from;
  for (let b = range.from + 1; b < range.to; b++) if (max[b] > max[best]) best = b;
  return best;
}

/** Figures of every row. */
export function rowFigures(p: Process, range: Range): Figures[] {
  const { cells, firstCell } = p;
  const { start_bytes, start_blocks } = p.page.rows;
  const width = p.page.bins.width_ns;
  const peakAt = peakBin(p, range);
  const out: Figures[] = new Array<Figures>(p.rows);
  for (let r = 0; r < p.rows; r++) {
    const f = noFigures();
    let live = start_bytes[r];
    let blocks = start_blocks[r];
    const end = firstCell[r + 1];
    let i = firstCell[r];
    for (let after = end; i < after;) { // the first cell of the range, by halving
      const middle = (i + after) >> 1;
      if (cells.bin[middle] < range.from) i = middle + 1;
      else after = middle;
    }
    if (i > firstCell[r]) {
      live = cells.live[i - 1];
      blocks = cells.blocks[i - 1];
    }
    f.start = f.peak = live;
    f.startBlocks = f.peakBlocks = blocks;
    let bin = range.from;
    for (; i < end && cells.bin[i] < range.to; i++) {
      const at = cells.bin[i];
      f.calls += cells.calls[i];
      f.allocated += cells.allocated[i];
      f.temporary += cells.temporary[i];
      f.byteNs += (live * (at - bin) + cells.mean[i]) * width;
      if (at < peakAt) {
        f.peak = cells.live[i];
        f.peakBlocks = cells.blocks[i];
      } else if (at === peakAt) {
        f.peak = cells.peak[i];
        f.peakBlocks = cells.peakBlocks[i];
      }
      live = cells.live[i];
      blocks = cells.blocks[i];
      bin = at + 1;
    }
    f.byteNs += live * (range.to - bin) * width;
    f.end = live;
    f.endBlocks = blocks;
    out[r] = f;
  }
  return out;
}

/** The sum over rows, of one lane or (-1) of all. */
export function groupFigures(p: Process, rows: Figures[], lane: number): Figures[] {
  const groups = p.page.groups.tip.length;
  const out: Figures[] = [];
  for (let g = 0; g < groups; g++) {
    const sum = noFigures();
    for (let k = p.firstRow[g]; k < p.firstRow[g + 1]; k++) {
      const r = p.rowsOf[k];
      if (lane < 0 || p.page.rows.lane[r] === lane) addFigures(sum, rows[r]);
    }
    out.push(sum);
  }
  return out;
}

export function totalFigures(list: Figures[]): Figures {
  const sum = noFigures();
  for (const f of list) addFigures(sum, f);
  return sum;
}

/** Live bytes at the end of each bin, of some rows together. */
export function liveSeries(p: Process, rows: Iterable<number>): Float64Array {
  const out = new Float64Array(p.bins);
  for (const r of rows) {
    let live = p.page.rows.start_bytes[r];
    let bin = 0;
    for (let i = p.firstCell[r]; i < p.firstCell[r + 1]; i++) {
      for (; bin < p.cells.bin[i]; bin++) out[bin] += live;
      live = p.cells.live[i];
    }
    for (; bin < p.bins; bin++) out[bin] += live;
  }
  return out;
}
