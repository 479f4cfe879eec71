/** What mallow put on the page (src/page/page.c and process.c write it), unpacked. */

export interface Listed {
  pid: number;
  ppid: number;
  command: string;
  exe: string;
  start_ns: number;
  duration_ns: number;
  events: number;
  allocations: number;
  requested_bytes: number;
  peak_live_bytes: number;
  end_live_bytes: number;
  temporary_allocations: number;
  /** Number of the block with its details; those without one are only listed. */
  block?: number;
}

export interface Summary {
  schema: number;
  mallow: string;
  file: string;
  file_bytes: number;
  start_realtime_ns: number;
  host: string | null;
  filter?: Record<string, string | number | boolean>;
  events: number;
  lost_events: number;
  warnings: string[];
  undetailed_processes: number;
  unlisted_processes: number;
  unlisted_events: number;
  unlisted_requested_bytes: number;
  unlisted_allocations: number;
  symbol_problems: string[];
  processes: Listed[];
}

interface Lane {
  tids: number[];
  name: string;
  inherited: boolean;
}

export interface Split {
  time_ns: number;
  live_bytes: number;
  live_blocks: number;
  resident_bytes: number;
  recorder_bytes: number;
  swapped_bytes: number;
  glibc: boolean;
  rounding_bytes: number;
  heap_free_bytes: number;
  mappings_bytes: number;
  allocator_bytes: number;
  stacks_bytes: number;
  files_bytes: number;
  shared_bytes: number;
  other_bytes: number;
}

interface RawPage {
  /** Call stacks, and those that were folded. */
  sites_total: number;
  sites_folded: number;
  call_sites: number;
  /** Call sites that there was no room for: one group. */
  call_sites_together: number;
  bins: {
    count: number;
    start_ns: number;
    width_ns: number;
    live_bytes: number[];
    live_blocks: number[];
    usable_bytes: number[];
    max_bytes: number[];
    max_blocks: number[];
    max_time_ns: number[];
    releases: number[];
    foreign_releases: number[];
    mmapped_min_bytes: number[];
    heap_max_bytes: number[];
  };
  lanes: Lane[];
  texts: string[];
  frames: { function: number[]; file: number[]; line: number[]; module: number[]; flags: number[] };
  /** Lines of the sources, where they were asked for and could be read. */
  sources: { root: string; items: { frame: number; line: number; first: number; lines: string[] }[] } | null;
  nodes: { caller: number[]; frame: number[] };
  groups: {
    tip: number[];
    site: number[];
    folded: number[];
    gap: number[];
    min_bytes: number[];
    max_bytes: number[];
    sizes: number[][];
    lifetimes: number[][];
  };
  rows: { group: number[]; lane: number[]; cells: number[]; start_bytes: number[]; start_blocks: number[] };
  cells: Record<"bin" | "calls" | "allocated" | "temporary" | "live" | "blocks" | "peak" | "peak_blocks" | "mean", number[]>;
  sizes: number[];
  lifetimes: number[];
  lane_releases: number[];
  handovers: number[];
  splits: Split[];
  splits_total: number;
  marks: { time_ns: number; label?: string; control?: string }[];
  marks_total: number;
  chains: { group: number; resizes: number; last_bytes: number; chains: number }[];
  chain_lengths: number[];
  failures: { call: string; size_bytes: number; time_ns: number; group: number }[];
}

export interface ThreadFigures {
  tid: number;
  name: string;
  calls: number;
  allocations: number;
  allocated_bytes: number;
  releases: number;
  releases_of_other_threads_blocks: number;
  released_by_other_threads: number;
  temporary_allocations: number;
  end_live_bytes: number;
}

/** The fields of `mallow report --json` that the page uses. */
export interface RawProcess {
  pid: number;
  ppid: number;
  command: string[];
  exe: string;
  threads: number;
  start_ns: number;
  duration_ns: number;
  complete: boolean;
  end: string;
  exit_status?: number;
  signal?: number;
  allocator: string | null;
  warnings: string[];
  lost_events: number;
  events: number;
  calls: Record<string, number>;
  failed_calls: number;
  allocations: number;
  requested_bytes: number;
  usable_bytes: number;
  peak_live_bytes: number;
  peak_live_blocks: number;
  peak_time_ns: number;
  end_live_bytes: number;
  end_live_blocks: number;
  inherited_bytes: number;
  inherited_blocks: number;
  temporary_allocations: number;
  cross_thread_frees: number;
  unknown_frees: number;
  lifetime_histogram: { min_ns: number; max_ns: number | null; blocks: number; bytes: number }[];
  reallocs: { resized: number; grown: number; shrunk: number; kept_bytes: number; chains: number; longest_chain: number };
  thread_figures: ThreadFigures[];
  /** As many as bins, where the kernel was asked for them; a kind that was not recorded has no numbers. */
  page_timeline?: { time_ns: number; minor_faults?: number; major_faults?: number; swapped_in_pages?: number }[];
  resident: { time_ns: number; vmsize_bytes: number; rss_bytes: number; rss_shared_bytes: number }[];
  peak_rss_bytes: number | null;
  peak_rss_time_ns: number | null;
  /** Its own anonymous mappings; not there when a filter is. */
  mapped?: {
    peak_bytes: number;
    peak_time_ns: number;
    end_bytes: number;
    sites_total: number;
    sites: { frames: { function: string; file: string; line: number; module: string }[]; calls: number; mapped_bytes: number; peak_bytes: number; end_bytes: number }[];
  };
  /** glibc's; null with another allocator. */
  mmap_threshold: {
    known: boolean;
    why_not?: string;
    contradiction_bytes?: number;
    start: "assumed" | "default" | "environment";
    fixed: boolean;
    steps: { time_ns: number; bytes: number }[];
  } | null;
  page: RawPage;
}

/** Bits of a frame's flags. */
export const OWN = 1;
export const INLINED = 2;
export const WRAPPER = 4;
export const KNOWN = 8;
export const CUT = 16;

export const LIFETIMES = 15;
export const SIZES = 260;

/** Columns of the cells, absolute, in the order of rows and within a row of bins. */
export interface Cells {
  bin: Uint16Array;
  calls: Float64Array;
  allocated: Float64Array;
  temporary: Float64Array;
  live: Float64Array;
  blocks: Float64Array;
  peak: Float64Array;
  peakBlocks: Float64Array;
  mean: Float64Array;
}

export interface Counts {
  count: Float64Array;
  bytes: Float64Array;
}

export interface Process {
  raw: RawProcess;
  page: RawPage;
  bins: number;
  rows: number;
  /** Cells of row r: [firstCell[r], firstCell[r + 1]). */
  firstCell: Uint32Array;
  cells: Cells;
  /** Rows of group g: rowsOf[firstRow[g]..firstRow[g + 1]). */
  firstRow: Uint32Array;
  rowsOf: Uint32Array;
  /** By node, 1..; 0 is the root above all. */
  caller: Uint32Array;
  frame: Uint32Array;
  sizes: Counts; // [bins x SIZES]
  lifetimes: Counts; // [bins x LIFETIMES]
  laneReleases: Counts; // [bins x lanes]
  handovers: Counts; // [lanes that made x lanes that freed]
  minLifetime: number[];
}

export function hasBlock(id: string): boolean {
  return document.getElementById(id)?.tagName === "SCRIPT";
}

export async function unpack(id: string): Promise<unknown> {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no block '${id}': it is not whole`);
  const letters = atob(element.textContent ?? "");
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

export async function loadSummary(): Promise<Summary> {
  return (await unpack("summary")) as Summary;
}

/** [distance, count, bytes, ...] to a table. */
function spread(sparse: number[], size: number): Counts {
  const counts = { count: new Float64Array(size), bytes: new Float64Array(size) };
  let at = 0;
  for (let i = 0; i + 2 < sparse.length; i += 3) {
    at += sparse[i];
    counts.count[at] = sparse[i + 1];
    counts.bytes[at] = sparse[i + 2];
  }
  return counts;
}

function decodeCells(page: RawPage, firstCell: Uint32Array): Cells {
  const { rows, cells } = page;
  const n = cells.bin.length;
  const out: Cells = {
    bin: new Uint16Array(n),
    calls: Float64Array.from(cells.calls),
    allocated: Float64Array.from(cells.allocated),
    temporary: Float64Array.from(cells.temporary),
    live: new Float64Array(n),
    blocks: new Float64Array(n),
    peak: new Float64Array(n),
    peakBlocks: new Float64Array(n),
    mean: new Float64Array(n),
  };
  for (let r = 0; r < rows.cells.length; r++) {
    let bin = 0;
    let live = rows.start_bytes[r];
    let blocks = rows.start_blocks[r];
    for (let i = firstCell[r]; i < firstCell[r + 1]; i++) {
      bin += cells.bin[i];
      out.bin[i] = bin;
      out.peak[i] = live + cells.peak[i];
      out.peakBlocks[i] = blocks + cells.peak_blocks[i];
      out.mean[i] = live + cells.mean[i];
      live += cells.live[i];
      blocks += cells.blocks[i];
      out.live[i] = live;
      out.blocks[i] = blocks;
    }
  }
  return out;
}

export function decode(raw: RawProcess): Process {
  const page = raw.page;
  const rows = page.rows.group.length;
  const groups = page.groups.tip.length;
  const firstCell = new Uint32Array(rows + 1);
  for (let r = 0; r < rows; r++) firstCell[r + 1] = firstCell[r] + page.rows.cells[r];
  const firstRow = new Uint32Array(groups + 1);
  for (const g of page.rows.group) firstRow[g + 1]++;
  for (let g = 0; g < groups; g++) firstRow[g + 1] += firstRow[g];
  const rowsOf = new Uint32Array(rows);
  const next = firstRow.slice();
  page.rows.group.forEach((g, r) => (rowsOf[next[g]++] = r));
  const nodes = page.nodes.frame.length;
  const caller = new Uint32Array(nodes + 1);
  const frame = new Uint32Array(nodes + 1);
  for (let i = 1; i <= nodes; i++) {
    const back = page.nodes.caller[i - 1];
    caller[i] = back ? i - back : 0;
    frame[i] = page.nodes.frame[i - 1];
  }
  const bins = page.bins.count;
  const lanes = page.lanes.length;
  const minLifetime = [0];
  for (let c = 1, ns = 100; c < LIFETIMES; c++, ns *= 10) minLifetime.push(ns);
  return {
    raw,
    page,
    bins,
    rows,
    firstCell,
    cells: decodeCells(page, firstCell),
    firstRow,
    rowsOf,
    caller,
    frame,
    sizes: spread(page.sizes, bins * SIZES),
    lifetimes: spread(page.lifetimes, bins * LIFETIMES),
    laneReleases: spread(page.lane_releases, bins * lanes),
    handovers: spread(page.handovers, lanes * lanes),
    minLifetime,
  };
}

/** Slices of the report, as many of them together as make a bin of the page; none where they do not fit. */
export function joinSlices<T extends { time_ns: number }>(slices: T[], bins: number): T[] {
  if (!bins || !slices.length || slices.length % bins) return [];
  const width = slices.length / bins;
  return Array.from({ length: bins }, (_v, b) => {
    const [first, ...more] = slices.slice(b * width, (b + 1) * width);
    const sum: Record<string, number> = { ...first };
    for (const s of more) for (const [key, value] of Object.entries(s)) if (key !== "time_ns") sum[key] += value as number;
    return sum as unknown as T;
  });
}

export async function loadProcess(block: number): Promise<Process> {
  return decode((await unpack(`process-${block}`)) as RawProcess);
}
