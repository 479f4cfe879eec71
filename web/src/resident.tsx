/** Why is more resident than live? From live bytes to resident ones, step by step. */
import { useMemo, useState } from "preact/hooks";
import type { FreeOf, HeapFree, Process, Split } from "./data";
import { peakBin, splitOfPeak, type Range } from "./figures";
import { bytes, duration, exact } from "./units";

interface Step {
  name: string;
  about: string;
  from: number;
  value: number;
  kind: "total" | "part";
}

/** The free memory of the heap by where it lies, for the one moment at which the addresses of all blocks are known. */
function freeParts(h: HeapFree): [string, string, number][] {
  const sum = (key: keyof FreeOf) => (h.main?.[key] ?? 0) + (h.arenas?.[key] ?? 0);
  const top = (name: string, of?: FreeOf): [string, string, number] => !of || of.top_bytes >= 0
    ? [`Top of ${name}`, "Above the highest live block: the top chunk, and what the allocator keeps for itself", of?.top_bytes ?? 0]
    : [`Not resident in ${name}`, "Free or live, but never written to, or given back", of.top_bytes];
  return [
    ["Headers of blocks", "What the allocator keeps in front of each live block", sum("header_bytes")],
    ["Free on pages with live blocks", "Free chunks that share their pages with live blocks: nothing gives them back", sum("pinned_bytes")],
    ["Whole free pages between blocks", "Pages without a live block, below the highest one of their heap: malloc_trim(3) gives them back", sum("between_bytes")],
    top("the heap", h.main),
    top("other arenas", h.arenas),
  ];
}

function steps(s: Split, heap: HeapFree | null): Step[] {
  const parts: [string, string, number][] = [
    ["Rounding", "What the allocator adds to each block when it rounds its size up", s.rounding_bytes],
    ...heap?.main ? freeParts(heap) : [s.heap_free_bytes < 0
      ? ["Blocks not touched yet", "Pages of live blocks in the heap and the arenas that were never written to, less the free chunks there", s.heap_free_bytes]
      : ["Free in the heap and arenas", "Free chunks and headers: released blocks whose memory the allocator keeps, and the top of the heap", s.heap_free_bytes]] as [string, string, number][],
    ["Mappings that are not blocks", "Private memory that the program or its libraries mapped themselves; less than nothing when mapped blocks were not touched", s.mappings_bytes],
    ["Allocator and other mappings", "What this allocator holds beyond the blocks, with the program's own mappings", s.allocator_bytes],
    ["Stacks", "Stacks of the threads", s.stacks_bytes],
    ["Code and data, files", "The program, its libraries, and mapped files: page cache", s.files_bytes],
    ["Shared memory", "", s.shared_bytes],
    ["Other", "", s.other_bytes],
  ];
  const out: Step[] = [{ name: "Live", about: "Bytes the program asked for and has not released", from: 0, value: s.live_bytes, kind: "total" }];
  let at = s.live_bytes;
  for (const [name, about, value] of parts) {
    if (!value) continue;
    out.push({ name, about, from: at, value, kind: "part" });
    at += value;
  }
  out.push({ name: "Resident", about: "What the kernel counts for the program; the recorder's own memory is taken off", from: 0, value: s.resident_bytes, kind: "total" });
  return out;
}

const callers = (frames: { function: string }[]) => (
  <>{frames[0]?.function ?? "(no stack recorded)"} <span class="muted small">{frames.slice(1, 3).map((f) => `← ${f.function}`).join(" ")}</span></>
);

/** Whose live blocks keep the free memory of the heap. */
export function Keepers({ p }: { p: Process }) {
  const heap = p.raw.heap_at_peak;
  if (!heap || !heap.sites.length) return null;
  const arenas = (heap.main ? heap.heaps : []).filter((h) => !h.main).sort((a, b) => b.pinned_bytes + b.between_bytes - a.pinned_bytes - a.between_bytes);
  return (
    <div>
      <h4>Whose live blocks keep free memory <span class="muted">at {duration(heap.time_ns)}; a page stays resident as long as one live block is on it</span></h4>
      <div class="table-box"><table class="plain" id="keepers">
        <thead><tr><th scope="col">Call site</th><th class="number" scope="col" title="Free on the pages that hold its blocks, shared with the other blocks there">Free on their pages</th>
          {heap.main && <th class="number" scope="col" title="Whole free pages directly below its blocks">Free pages below</th>}<th class="number" scope="col">Live</th><th class="number" scope="col">Blocks</th></tr></thead>
        <tbody>{heap.sites.slice(0, 12).map((s, i) => <tr key={i} title={s.frames.map((f) => f.function).join("\n")}>
          <td>{callers(s.frames)}</td>
          <td class="number" data-exact={s.pinned_bytes} title={exact(s.pinned_bytes)}>{bytes(s.pinned_bytes)}</td>
          {heap.main && <td class="number" title={exact(s.below_bytes)}>{bytes(s.below_bytes)}</td>}
          <td class="number" title={exact(s.live_bytes)}>{bytes(s.live_bytes)}</td>
          <td class="number" title={exact(s.live_blocks)}>{exact(s.live_blocks)}</td>
        </tr>)}</tbody>
      </table></div>
      {heap.sites_total > 12 && <p class="muted small">{exact(heap.sites_total - 12)} more call stacks are not listed here; 'mallow report --json --heap' has all.</p>}
      {arenas.length > 0 && <>
        <h4>Heaps of other arenas <span class="muted">from the first to the last live block of each</span></h4>
        <div class="table-box"><table class="plain" id="heaps">
          <thead><tr><th scope="col">Heap</th><th class="number" scope="col">Spans</th><th class="number" scope="col">Live</th><th class="number" scope="col">Blocks</th><th class="number" scope="col">Free on their pages</th><th class="number" scope="col">Free pages</th></tr></thead>
          <tbody>{arenas.slice(0, 12).map((h) => <tr key={h.address}>
            <td><code>{h.address}</code></td><td class="number" title={exact(h.span_bytes)}>{bytes(h.span_bytes)}</td><td class="number" title={exact(h.live_bytes)}>{bytes(h.live_bytes)}</td>
            <td class="number">{exact(h.live_blocks)}</td><td class="number" title={exact(h.pinned_bytes)}>{bytes(h.pinned_bytes)}</td><td class="number" title={exact(h.between_bytes)}>{bytes(h.between_bytes)}</td>
          </tr>)}</tbody>
        </table></div>
        {arenas.length > 12 && <p class="muted small">and {exact(arenas.length - 12 + heap.heaps_total - heap.heaps.length)} more heaps</p>}
      </>}
      <p class="muted small">{heap.main
        ? "Known are the addresses of all live blocks, and what the kernel counts as resident in the heap and in the arenas together; whether a single free page is resident is not. Free pages between blocks are taken to be."
        : "Known are the addresses of all live blocks. How this allocator divides its memory is not, so free pages between blocks are not told apart from memory that was never its own."}</p>
    </div>
  );
}

/** Memory that the program mapped by itself: no blocks, but resident as well once it is touched. */
export function Mapped({ p }: { p: Process }) {
  const mapped = p.raw.mapped;
  if (!mapped || !mapped.sites.length) return null;
  const sites = [...mapped.sites].sort((a, b) => b.peak_bytes - a.peak_bytes || b.mapped_bytes - a.mapped_bytes);
  return (
    <div>
      <h4>Mapped by the program itself <span class="muted">whole run; address space, resident only where it was touched; {bytes(mapped.peak_bytes)} at most, {duration(mapped.peak_time_ns)} after the start</span></h4>
      <div class="table-box"><table class="plain" id="mapped">
        <thead><tr><th scope="col">Call site</th><th class="number" scope="col">At its peak</th><th class="number" scope="col">At the end</th><th class="number" scope="col">Mapped</th><th class="number" scope="col">Calls</th></tr></thead>
        <tbody>{sites.slice(0, 12).map((s, i) => <tr key={i} title={s.frames.map((f) => f.function).join("\n")}>
          <td>{callers(s.frames)}</td>
          <td class="number" data-exact={s.peak_bytes} title={exact(s.peak_bytes)}>{bytes(s.peak_bytes)}</td>
          <td class="number" title={exact(s.end_bytes)}>{bytes(s.end_bytes)}</td>
          <td class="number" title={exact(s.mapped_bytes)}>{bytes(s.mapped_bytes)}</td>
          <td class="number" title={exact(s.calls)}>{exact(s.calls)}</td>
        </tr>)}</tbody>
      </table></div>
      {mapped.sites_total > 12 && <p class="muted small">{exact(mapped.sites_total - 12)} more call stacks are not listed here; 'mallow report --json' has all.</p>}
    </div>
  );
}

export function Resident({ p, range }: { p: Process; range: Range }) {
  const splits = p.page.splits;
  const bins = p.page.bins;
  const peakNs = bins.max_time_ns[peakBin(p, range)];
  const peakBytes = bins.max_bytes[peakBin(p, range)];
  const nearest = useMemo(() => splitOfPeak(splits, peakBytes, peakNs), [splits, peakBytes, peakNs]);
  const [chosen, setChosen] = useState<{ of: number; at: number } | null>(null);
  const index = chosen && chosen.of === nearest ? chosen.at : nearest;
  if (!splits.length)
    return <p class="muted">The recording has no split of the resident size by kind of memory: the program was too short to be looked at, or it was recorded without 'mallow record' beside it.</p>;
  const s = splits[index];
  const heap = p.raw.heap_at_peak?.time_ns === s.time_ns ? p.raw.heap_at_peak : null;
  const list = steps(s, heap);
  const max = Math.max(...list.map((x) => Math.max(x.from, x.from + x.value)));
  const away = s.time_ns - peakNs;
  return (
    <div>
      <p>
        At {duration(s.time_ns)}{index === nearest && <>, {Math.abs(away) < 1e6 ? "at" : <>{duration(Math.abs(away))} {away < 0 ? "before" : "after"}</>} the peak of the range</>}:{" "}
        <b title={`${exact(s.resident_bytes)} bytes`}>{bytes(s.resident_bytes)}</b> were resident,{" "}
        <b title={`${exact(s.resident_bytes - s.live_bytes)} bytes`}>{bytes(Math.abs(s.resident_bytes - s.live_bytes))}</b> {s.resident_bytes >= s.live_bytes ? "above" : "below"} live.
        {s.swapped_bytes > 0 && ` ${bytes(s.swapped_bytes)} were swapped out.`}
        <span class="muted"> The recorder's own {bytes(s.recorder_bytes)} are taken off.</span>
      </p>
      <table class="waterfall" id="waterfall">
        <tbody>{list.map((x) => <tr key={x.name} title={`${x.about}${x.about ? ": " : ""}${exact(x.value)} bytes`} class={x.kind === "total" ? "total" : undefined}>
          <th scope="row">{x.name}</th>
          <td class="fall"><i class={x.kind === "total" ? x.name.toLowerCase() : x.value < 0 ? "less" : "more"}
            style={{ left: `${(100 * Math.min(x.from, x.from + x.value)) / max}%`, width: `max(2px, ${(100 * Math.abs(x.value)) / max}%)` }} /></td>
          <td class="number" data-exact={x.value}>{x.kind === "part" && x.value > 0 ? "+" : ""}{bytes(x.value)}</td>
        </tr>)}</tbody>
      </table>
      {splits.length > 1 && <div class="controls">
        <label>Another moment <input type="range" min={0} max={splits.length - 1} value={index} aria-label="Moment of the split"
          onInput={(e) => setChosen({ of: nearest, at: Number(e.currentTarget.value) })} /></label>
        <span class="muted">{index + 1} of {splits.length} moments at which the kernel was asked, at new peaks{p.page.splits_total > splits.length && ` (${exact(p.page.splits_total)} were recorded)`}</span>
      </div>}
    </div>
  );
}
