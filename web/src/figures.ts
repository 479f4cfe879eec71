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

/** Figures of many, numbers in a row: an object for each takes a browser several times as long to make and to add up. */
export type FigureList = Float64Array;
const [CALLS, ALLOCATED, TEMPORARY, PEAK, PEAK_BLOCKS, START, START_BLOCKS, END, END_BLOCKS, BYTE_NS, FIELDS] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/** Adds those of number i. */
export function addListed(sum: Figures, list: FigureList, i: number): void {
  const at = i * FIELDS;
  sum.calls += list[at + CALLS];
  sum.allocated += list[at + ALLOCATED];
  sum.temporary += list[at + TEMPORARY];
  sum.peak += list[at + PEAK];
  sum.peakBlocks += list[at + PEAK_BLOCKS];
  sum.start += list[at + START];
  sum.startBlocks += list[at + START_BLOCKS];
  sum.end += list[at + END];
  sum.endBlocks += list[at + END_BLOCKS];
  sum.byteNs += list[at + BYTE_NS];
}

const FIELD: Record<Exclude<Metric, "growth">, number> = { peak: PEAK, end: END, allocated: ALLOCATED, temporary: TEMPORARY, calls: CALLS, byteNs: BYTE_NS };

/** One figure of all. */
export function metricsOf(list: FigureList, by: Metric): Float64Array {
  const out = new Float64Array(list.length / FIELDS);
  if (by === "growth") for (let i = 0, at = 0; i < out.length; i++, at += FIELDS) out[i] = list[at + END] - list[at + START];
  else for (let i = 0, at = FIELD[by]; i < out.length; i++, at += FIELDS) out[i] = list[at];
  return out;
}

/** The bin in which most bytes were live, the first of several. */
export function peakBin(p: Process, range: Range): number {
  const max = p.page.bins.max_bytes;
  let best = range.from;
  for (let b = range.from + 1; b < range.to; b++) if (max[b] > max[best]) best = b;
  return best;
}

/** Figures of every row. */
export function rowFigures(p: Process, range: Range): FigureList {
  const { firstCell, rows } = p;
  const { bin, calls, allocated, temporary, live, blocks, peak, peakBlocks, mean } = p.cells;
  const { start_bytes, start_blocks } = p.page.rows;
  const width = p.page.bins.width_ns;
  const peakAt = peakBin(p, range);
  const out = new Float64Array(rows * FIELDS);
  for (let r = 0, to = 0; r < rows; r++, to += FIELDS) {
    let liveNow = start_bytes[r];
    let blocksNow = start_blocks[r];
    const end = firstCell[r + 1];
    let i = firstCell[r];
    for (let after = end; i < after;) { // the first cell of the range, by halving
      const middle = (i + after) >> 1;
      if (bin[middle] < range.from) i = middle + 1;
      else after = middle;
    }
    if (i > firstCell[r]) {
      liveNow = live[i - 1];
      blocksNow = blocks[i - 1];
    }
    out[to + START] = liveNow;
    out[to + START_BLOCKS] = blocksNow;
    let [peakHere, peakBlocksHere] = [liveNow, blocksNow];
    let [sumCalls, sumAllocated, sumTemporary, byteNs] = [0, 0, 0, 0];
    let next = range.from;
    for (; i < end && bin[i] < range.to; i++) {
      const at = bin[i];
      sumCalls += calls[i];
      sumAllocated += allocated[i];
      sumTemporary += temporary[i];
      byteNs += (liveNow * (at - next) + mean[i]) * width;
      if (at <= peakAt) {
        peakHere = at < peakAt ? live[i] : peak[i];
        peakBlocksHere = at < peakAt ? blocks[i] : peakBlocks[i];
      }
      liveNow = live[i];
      blocksNow = blocks[i];
      next = at + 1;
    }
    out[to + CALLS] = sumCalls;
    out[to + ALLOCATED] = sumAllocated;
    out[to + TEMPORARY] = sumTemporary;
    out[to + PEAK] = peakHere;
    out[to + PEAK_BLOCKS] = peakBlocksHere;
    out[to + END] = liveNow;
    out[to + END_BLOCKS] = blocksNow;
    out[to + BYTE_NS] = byteNs + liveNow * (range.to - next) * width;
  }
  return out;
}

function sumInto(sums: FigureList, k: number, list: FigureList, i: number): void {
  for (let to = k * FIELDS, at = i * FIELDS, end = at + FIELDS; at < end; at++, to++) sums[to] += list[at];
}

/** The sum over the rows of each group, of one lane or (-1) of all. */
export function groupFigures(p: Process, rows: FigureList, lane: number): FigureList {
  const { group, lane: laneOf } = p.page.rows;
  const out = new Float64Array(p.page.groups.tip.length * FIELDS);
  for (let r = 0; r < p.rows; r++) if (lane < 0 || laneOf[r] === lane) sumInto(out, group[r], rows, r);
  return out;
}

/** The sum over the rows of each lane. */
export function laneFigures(p: Process, rows: FigureList): Figures[] {
  const { lane } = p.page.rows;
  const sums = new Float64Array(p.page.lanes.length * FIELDS);
  for (let r = 0; r < p.rows; r++) sumInto(sums, lane[r], rows, r);
  return p.page.lanes.map((_l, k) => figuresAt(sums, k));
}

export function figuresAt(list: FigureList, i: number): Figures {
  const f = noFigures();
  addListed(f, list, i);
  return f;
}

export function totalFigures(list: FigureList): Figures {
  const sums = new Float64Array(FIELDS);
  for (let i = 0; i < list.length / FIELDS; i++) sumInto(sums, 0, list, i);
  return figuresAt(sums, 0);
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
