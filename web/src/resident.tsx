/** Why is more resident than live? From live bytes to resident ones, step by step. */
import { useMemo, useState } from "preact/hooks";
import type { Process, Split } from "./data";
import { peakBin, type Range } from "./figures";
import { bytes, duration, exact } from "./units";

interface Step {
  name: string;
  about: string;
  from: number;
  value: number;
  kind: "total" | "part";
}

function steps(s: Split): Step[] {
  const parts: [string, string, number][] = [
    ["Rounding", "What the allocator adds to each block when it rounds its size up", s.rounding_bytes],
    s.heap_free_bytes < 0
      ? ["Blocks not touched yet", "Pages of live blocks in the heap and the arenas that were never written to, less the free chunks there", s.heap_free_bytes]
      : ["Free in the heap and arenas", "Free chunks and headers: released blocks whose memory the allocator keeps, and the top of the heap", s.heap_free_bytes],
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
          <td>{s.frames[0]?.function ?? "(no stack recorded)"} <span class="muted small">{s.frames.slice(1, 3).map((f) => `← ${f.function}`).join(" ")}</span></td>
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
  const nearest = useMemo(() => {
    let best = 0;
    splits.forEach((s, i) => {
      if (Math.abs(s.time_ns - peakNs) < Math.abs(splits[best].time_ns - peakNs)) best = i;
    });
    return best;
  }, [splits, peakNs]);
  const [chosen, setChosen] = useState<{ of: number; at: number } | null>(null);
  const index = chosen && chosen.of === nearest ? chosen.at : nearest;
  if (!splits.length)
    return <p class="muted">The recording has no split of the resident size by kind of memory: the program was too short to be looked at, or it was recorded without 'mallow record' beside it.</p>;
  const s = splits[index];
  const list = steps(s);
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
        <tbody>{list.map((x) => <tr key={x.name} title={`${x.about}${x.about ? ": " : ""}${exact(x.value)} bytes`} class={x.kind}>
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
