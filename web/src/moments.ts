/** Moments of a run: why more was resident than live at each, and the map of the heap (src/page/moments.c writes them). */
import { hasBlock, unpack } from "./data";
import type { Range } from "./figures";

export interface Frame {
  function: string;
  file: string;
  line: number;
  module: string;
}

/** At a measurement all parts are known, and add up to rss_bytes; else those that addresses show. */
export interface Moment {
  time_ns: number;
  measured: boolean;
  rss_bytes?: number;
  swapped_bytes?: number;
  live_bytes: number;
  live_blocks: number;
  parts: number[];
  /** glibc: [address (0: main), live bytes, live blocks, free, free on shared pages, free below, tcache, heaps, threads, tid...] */
  arenas?: number[][];
  arenas_total?: number;
  /** Heaps of other arenas than the main one begin at multiples of it. */
  arena_heap_bytes?: number;
  /** [site, free on its pages, free below, live bytes, live blocks] */
  keepers: number[][];
  keepers_total: number;
  /** [remedy, bytes saved (0: not known), site or -1, bytes saved at most (0: not known)] */
  advice: number[][];
}

export interface Explained {
  at: string;
  also: string[];
  time_ns: number;
  measured_ns: number | null;
  rss_bytes: number | null;
  nearest_measured_ns?: number | null;
  live_bytes: number;
}

interface RawMap {
  cell_bytes: number;
  columns: number;
  rows: number[];
  /** By moment: [cells passed over, live, free on shared pages, three sites + 1, ...] of cells that changed. */
  changes: number[][];
}

interface RawMoments {
  part_names: string[];
  remedies: { setting: string; text: string; command: string | null }[];
  moments: Moment[];
  explained: Explained[];
  sites: (number | null)[];
  frame_table: Frame[];
  map: RawMap | null;
}

export const MAP_SITES = 3;
/** Sites that are too many to have a number. */
const OTHER_SITE = 65535;

/** Every cell at every moment: [moment * cells + cell]. */
export interface HeapMap {
  cellBytes: number;
  columns: number;
  rows: number[];
  cells: number;
  live: Uint8Array; // hundredths
  free: Uint8Array; // on pages with live blocks
  sites: Uint16Array; // [(moment * cells + cell) * MAP_SITES], number + 1
  since: Uint16Array; // [cells] the first moment at which something was there
}

export interface Moments {
  list: Moment[];
  part: Record<string, number>;
  partNames: string[];
  remedies: RawMoments["remedies"];
  explained: Explained[];
  site(number: number): Frame | null;
  map: HeapMap | null;
}

export function decodeMap(raw: RawMap): HeapMap {
  const cells = raw.rows.length * raw.columns;
  const n = raw.changes.length * cells;
  const map: HeapMap = {
    cellBytes: raw.cell_bytes, columns: raw.columns, rows: raw.rows, cells,
    live: new Uint8Array(n), free: new Uint8Array(n), sites: new Uint16Array(n * MAP_SITES), since: new Uint16Array(cells).fill(raw.changes.length),
  };
  raw.changes.forEach((list, m) => {
    const at = m * cells;
    if (m) {
      map.live.copyWithin(at, at - cells, at);
      map.free.copyWithin(at, at - cells, at);
      map.sites.copyWithin(at * MAP_SITES, (at - cells) * MAP_SITES, at * MAP_SITES);
    }
    let cell = -1;
    for (let i = 0; i < list.length; i += 3 + MAP_SITES) {
      cell += list[i] + 1;
      map.live[at + cell] = list[i + 1];
      map.free[at + cell] = list[i + 2];
      for (let k = 0; k < MAP_SITES; k++) map.sites[(at + cell) * MAP_SITES + k] = list[i + 3 + k];
      if (map.since[cell] > m) map.since[cell] = m;
    }
  });
  return map;
}

export async function loadMoments(block: number): Promise<Moments | null> {
  if (!hasBlock(`moments-${block}`)) return null;
  const raw = (await unpack(`moments-${block}`)) as RawMoments;
  return {
    list: raw.moments,
    part: Object.fromEntries(raw.part_names.map((name, i) => [name, i])),
    partNames: raw.part_names,
    remedies: raw.remedies,
    explained: raw.explained,
    site: (number) => {
      const place = raw.sites[number];
      return place === null || place === undefined ? null : raw.frame_table[place];
    },
    map: raw.map && decodeMap(raw.map),
  };
}

export function siteText(m: Moments, number: number): string {
  return number === OTHER_SITE ? "(one of very many call sites)" : (m.site(number)?.function ?? "(no stack recorded)");
}

/** Indices of the moments of a range of time; of none, where there are none. */
export function momentsIn(m: { list: { time_ns: number }[] }, fromNs: number, toNs: number, whole: boolean): number[] {
  const out: number[] = [];
  m.list.forEach((x, i) => (whole || (x.time_ns >= fromNs && x.time_ns <= toNs)) && out.push(i));
  return out;
}

/** Of some moments the nearest in time that passes; -1: none does. Of two that are as near, the later. */
export function nearestMoment(list: { time_ns: number }[], among: number[], timeNs: number, passes: (i: number) => boolean = () => true): number {
  let best = -1;
  for (const i of among)
    if (passes(i) && (best < 0 || Math.abs(list[i].time_ns - timeNs) <= Math.abs(list[best].time_ns - timeNs))) best = i;
  return best;
}

/** Where the explanation of a range begins: the measurement whose live bytes come closest to the peak's, then in time. */
export function momentOfPeak(list: Moment[], among: number[], peakBytes: number, peakNs: number): number {
  const measured = among.filter((i) => list[i].measured);
  if (!measured.length) return nearestMoment(list, among, peakNs);
  const differ = (i: number) => Math.abs(list[i].live_bytes - peakBytes);
  const closest = Math.min(...measured.map(differ));
  return nearestMoment(list, measured, peakNs, (i) => differ(i) - closest <= peakBytes / 100);
}

/** Slices of the page whose end a time is, or next to. */
export function sliceAt(bins: { start_ns: number; width_ns: number; count: number }, timeNs: number): Range {
  const to = Math.max(1, Math.min(bins.count, Math.round((timeNs - bins.start_ns) / bins.width_ns)));
  return { from: to - 1, to };
}
