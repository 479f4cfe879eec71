/** Why is more resident than live? At every moment of the run: its parts, what keeps them, what would help, the map of the heap. */
import { useMemo } from "preact/hooks";
import type { Process } from "./data";
import { peakBin, type Range } from "./figures";
import { HeapMapView } from "./heapmap";
import { momentOfPeak, momentsIn, nearestMoment, siteText, type Explained, type Moment, type Moments } from "./moments";
import { Path } from "./names";
import { bytes, duration, exact, plural } from "./units";

/** [name, what it is] of each part, as explain_part_name() calls it. */
const PARTS: Record<string, [string, string]> = {
  live: ["Live", "Bytes the program asked for and has not released"],
  rounding: ["Rounding", "What the allocator adds to each block when it rounds its size up"],
  headers: ["Headers of blocks", "What the allocator keeps in front of each live block"],
  fragmentation: ["Free on pages with live blocks", "Fragmentation: free chunks that share their pages with live blocks; nothing gives them back"],
  free_pages: ["Whole free pages", "Pages without a live block, below the highest one of their heap: malloc_trim(3) gives them back"],
  tcache: ["Caches of threads (tcache)", "Freed chunks that the caches of threads keep, which only these threads get again"],
  tops: ["Tops of the arenas", "Above the highest live block of each heap: the top chunk, and what the allocator keeps for itself"],
  unrecorded: ["Without a recorded block", "Where no recorded block ever was: the program's own (sbrk), or blocks that were made unseen or before the recording"],
  allocator_free: ["Allocator and other mappings", "What this allocator holds beyond the blocks, with the program's own mappings"],
  not_resident: ["Not resident", "Of the above: never written to, or given back"],
  untouched: ["Never touched", "Of blocks with a mapping of their own, at least so much was never written to, or is given back"],
  mappings: ["Mappings that are not blocks", "Private memory that the program or its libraries mapped themselves"],
  stacks: ["Stacks", "Stacks of the threads"],
  code_and_data: ["Code and data", "Of the program and its libraries: page cache"],
  mapped_files: ["Mapped files", "Files that the program mapped and executes nothing from: page cache"],
  shared: ["Shared memory", ""],
  given_back: ["Given back lazily", "By MADV_FREE: counted as resident until the kernel needs the pages"],
  recorder: ["The recorder's own", "mallow's memory in the process: not there without it"],
  other: ["Other", ""],
};

interface Step {
  id: string;
  name: string;
  about: string;
  from: number;
  value: number;
  kind: "total" | "part";
}

/** From live bytes to resident ones, or to what is known without a measurement. */
function steps(m: Moments, of: Moment): Step[] {
  const [live, ...parts] = of.parts;
  const out: Step[] = [{ id: "live", name: "Live", about: PARTS.live[1], from: 0, value: live, kind: "total" }];
  let at = live;
  parts.forEach((value, i) => {
    if (!value) return;
    const id = m.partNames[i + 1];
    const [name, about] = PARTS[id] ?? [id, ""];
    out.push({ id, name, about, from: at, value, kind: "part" });
    at += value;
  });
  out.push(of.measured
    ? { id: "rss", name: "Resident", about: "What the kernel counted for the process", from: 0, value: of.rss_bytes!, kind: "total" }
    : { id: "known", name: "Known so far", about: "By the addresses of the blocks; what of it is resident was not measured then", from: 0, value: at, kind: "total" });
  return out;
}

function Waterfall({ id, m, of }: { id: string; m: Moments; of: Moment }) {
  const list = steps(m, of);
  const max = Math.max(1, ...list.map((x) => Math.max(x.from, x.from + x.value)));
  return (
    <table class="waterfall" id={id} data-ns={of.time_ns}>
      <tbody>{list.map((x) => <tr key={x.id} title={`${x.about}${x.about ? ": " : ""}${exact(x.value)} bytes`} class={x.kind === "total" ? "total" : undefined}>
        <th scope="row">{x.name}</th>
        <td class="fall"><i class={x.kind === "total" ? (x.id === "rss" ? "resident" : x.id === "live" ? "live" : "known") : x.value < 0 ? "less" : "more"}
          style={{ left: `${(100 * Math.max(0, Math.min(x.from, x.from + x.value))) / max}%`, width: `max(2px, ${(100 * Math.abs(x.value)) / max}%)` }} /></td>
        <td class="number" data-part={x.id} data-exact={x.value}>{x.kind === "part" && x.value > 0 ? "+" : ""}{bytes(x.value)}</td>
      </tr>)}</tbody>
    </table>
  );
}

const callers = (frames: { function: string }[]) => (
  <>{frames[0]?.function ?? "(no stack recorded)"} <span class="muted small">{frames.slice(1, 3).map((f) => `← ${f.function}`).join(" ")}</span></>
);

function SiteName({ m, site }: { m: Moments; site: number }) {
  const f = m.site(site);
  return <span class="site-name"><span class="fn">{siteText(m, site)}</span>{f && <Path place={f.file ? `${f.file}${f.line ? `:${f.line}` : ""}` : ""} module={f.module ?? ""} />}</span>;
}

/** Whose live blocks keep the free memory of the heap. */
function Keepers({ m, of }: { m: Moments; of: Moment }) {
  if (!of.keepers.length) return null;
  const below = of.arenas !== undefined;
  return (
    <div>
      <h4>Whose live blocks keep free memory <span class="muted">at {duration(of.time_ns)}; a page stays resident as long as one live block is on it</span></h4>
      <div class="table-box"><table class="plain" id="keepers">
        <thead><tr><th scope="col">Call site</th><th class="number" scope="col" title="Free on the pages that hold its blocks, shared with the other blocks there">Free on their pages</th>
          {below && <th class="number" scope="col" title="Whole free pages directly below its blocks">Free pages below</th>}<th class="number" scope="col">Live</th><th class="number" scope="col">Blocks</th></tr></thead>
        <tbody>{of.keepers.map(([site, shared, whole, live, blocks]) => <tr key={site}>
          <td><SiteName m={m} site={site} /></td>
          <td class="number" data-exact={shared} title={exact(shared)}>{bytes(shared)}</td>
          {below && <td class="number" title={exact(whole)}>{bytes(whole)}</td>}
          <td class="number" title={exact(live)}>{bytes(live)}</td>
          <td class="number" title={exact(blocks)}>{exact(blocks)}</td>
        </tr>)}</tbody>
      </table></div>
      {of.keepers_total > of.keepers.length && <p class="muted small">{plural(of.keepers_total - of.keepers.length, "call site")} that keep less are not listed.</p>}
    </div>
  );
}

function Arenas({ of }: { of: Moment }) {
  if (!of.arenas || of.arenas_total! < 2) return null;
  return (
    <div>
      <h4>Arenas <span class="muted">{exact(of.arenas_total!)} at {duration(of.time_ns)}, by the addresses of their blocks</span></h4>
      <div class="table-box"><table class="plain" id="arenas">
        <thead><tr><th scope="col">Arena</th><th class="number" scope="col" title="From its start to the highest block that it ever had, less what is live">Free</th><th class="number" scope="col">Live</th><th class="number" scope="col">Blocks</th>
          <th class="number" scope="col">On pages with live blocks</th><th class="number" scope="col">Whole pages below</th><th class="number" scope="col">tcache</th><th scope="col">Threads</th></tr></thead>
        <tbody>{of.arenas.map(([address, live, blocks, free, shared, below, cached, heaps, threads, ...tids]) => <tr key={address}>
          <td>{address ? <code>0x{address.toString(16)}</code> : "main"}{heaps > 1 && <span class="muted small"> {exact(heaps)} heaps</span>}</td>
          <td class="number" data-exact={free} title={exact(free)}>{bytes(free)}</td><td class="number" title={exact(live)}>{bytes(live)}</td><td class="number">{exact(blocks)}</td>
          <td class="number" title={exact(shared)}>{bytes(shared)}</td><td class="number" title={exact(below)}>{bytes(below)}</td><td class="number" title={exact(cached)}>{bytes(cached)}</td>
          <td>{threads ? tids.join(", ") : <span class="muted">none</span>}{threads > tids.length && <span class="muted"> and {exact(threads - tids.length)} more</span>}</td>
        </tr>)}</tbody>
      </table></div>
      {of.arenas_total! > of.arenas.length && <p class="muted small">and {exact(of.arenas_total! - of.arenas.length)} more with less free</p>}
    </div>
  );
}

function Advice({ m, of }: { m: Moments; of: Moment }) {
  if (!of.advice.length) return null;
  return (
    <div>
      <h4>What could help <span class="muted">and about what it would save, by the addresses; 'mallow advise' measures it</span></h4>
      <ul class="advice" id="advice">{of.advice.map(([kind, saves, site, most]) => <li key={kind} data-exact={saves} data-setting={m.remedies[kind].setting}>
        <b class="number">{saves ? bytes(saves) : most ? `up to ${bytes(most)}` : "?"}</b> <span>{m.remedies[kind].text}{site >= 0 && <>: <SiteName m={m} site={site} /></>}{m.remedies[kind].command && <> <code>{m.remedies[kind].command}</code></>}</span>
      </li>)}</ul>
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

const AT: Record<string, string> = { peak: "Peak of live", rss: "Largest RSS", gap: "Largest gap", end: "End" };

/** Moments with a name: those that the report explains, and marks. */
function named(p: Process, m: Moments, among: number[]): { name: string; index: number }[] {
  const out: { name: string; index: number }[] = [];
  const add = (name: string, timeNs: number) => {
    const index = nearestMoment(m.list, among, timeNs);
    if (index < 0 || m.list[index].time_ns !== timeNs) return;
    const same = out.find((o) => o.index === index);
    if (same) same.name += `, ${name.toLowerCase().replace("rss", "RSS")}`;
    else out.push({ name, index });
  };
  const named = (e: Explained) => [e.at, ...e.also].map((at) => AT[at]).filter(Boolean);
  for (const e of m.explained) for (const name of named(e)) add(name, e.measured_ns ?? e.time_ns);
  for (const mark of p.page.marks.slice(0, 8)) if (mark.label) add(`“${mark.label}”`, mark.time_ns);
  return out;
}

/** The resident size that was sampled next to a moment; null without samples. */
function sampled(p: Process, timeNs: number): { time_ns: number; rss_bytes: number } | null {
  const at = nearestMoment(p.raw.resident, p.raw.resident.map((_r, i) => i), timeNs);
  return at < 0 ? null : p.raw.resident[at];
}

const away = (from: number, to: number) => (from === to ? "at the same time" : `${duration(Math.abs(to - from))} ${to < from ? "before" : "after"}`);

function Measured({ m, of }: { m: Moments; of: Moment }) {
  const recorder = of.parts[m.part.recorder] ?? 0;
  const above = of.rss_bytes! - recorder - of.live_bytes;
  return (
    <p id="measured">Measured {duration(of.time_ns)} after the start: <b title={`${exact(of.rss_bytes!)} bytes`}>{bytes(of.rss_bytes!)}</b> were resident,{" "}
      <b title={`${exact(above)} bytes`}>{bytes(Math.abs(above))}</b> {above < 0 ? "below" : "above"} live without the recorder's own {bytes(recorder)}.{of.swapped_bytes! > 0 && ` ${bytes(of.swapped_bytes!)} were swapped out.`}</p>
  );
}

function Unmeasured({ p, m, of, nearest, outside, onAt }: { p: Process; m: Moments; of: Moment; nearest: number; outside: number; onAt: (ns: number) => void }) {
  const rss = sampled(p, of.time_ns);
  const near = nearest >= 0 ? m.list[nearest] : null;
  return (
    <div class={near ? "two" : undefined}>
      <div>
        <p id="unmeasured">{duration(of.time_ns)} after the start the resident size was not split. Known without that, by addresses:</p>
        <Waterfall id="known" m={m} of={of} />
        {rss && <p class="muted small">A sample of the resident size {away(of.time_ns, rss.time_ns)}: {bytes(rss.rss_bytes)}.</p>}
      </div>
      {near ? <div class="nearest" data-away={near.time_ns - of.time_ns}>
        <p>The nearest measurement was made <b>{away(of.time_ns, near.time_ns)}</b> this moment. <button onClick={() => onAt(near.time_ns)} id="to-nearest">Go there</button></p>
        <Waterfall id="nearest" m={m} of={near} />
      </div> : <p class="muted" id="none-in-range">{outside >= 0 ? `No measurement was made in this range; the nearest is ${away(of.time_ns, m.list[outside].time_ns)} this moment, outside of it.` : "The kernel was never asked for the split of the resident size: the program was too short, or it was recorded without 'mallow record' beside it."}</p>}
    </div>
  );
}

/** The moment that the page shows, of an asked-for time (-1: the one that explains the peak); -1: there is none. */
export function chosenMoment(p: Process, m: Moments | null, range: Range, whole: boolean, at: number): { among: number[]; index: number } {
  if (!m) return { among: [], index: -1 };
  const { bins } = p.page;
  const among = momentsIn(m, bins.start_ns + range.from * bins.width_ns, bins.start_ns + range.to * bins.width_ns, whole);
  const b = peakBin(p, range);
  const index = at >= 0 ? nearestMoment(m.list, among, at) : momentOfPeak(m.list, among, bins.max_bytes[b], bins.max_time_ns[b]);
  return { among, index };
}

export function Why({ p, m, among, index, dark, onAt }: { p: Process; m: Moments | null; among: number[]; index: number; dark: boolean; onAt: (ns: number) => void }) {
  const names = useMemo(() => (m ? named(p, m, among) : []), [p, m, among]);
  if (!m) return <p class="muted" id="no-moments">Under this filter, or in so little room, nothing can be said about single moments; 'mallow report' explains them.</p>;
  if (index < 0) return <p class="muted">Of no moment in this range the addresses were looked at.</p>;
  const of = m.list[index];
  const measured = (i: number) => m.list[i].measured;
  const nearest = nearestMoment(m.list, among, of.time_ns, measured);
  const outside = nearestMoment(m.list, m.list.map((_x, i) => i), of.time_ns, measured);
  const position = among.indexOf(index);
  return (
    <div>
      <div class="controls moments">
        {names.map((n) => <button key={n.index} data-at={m.list[n.index].time_ns} aria-pressed={n.index === index} onClick={() => onAt(m.list[n.index].time_ns)}>{n.name}</button>)}
        <label class="slider">Moment <input type="range" id="moment" min={0} max={among.length - 1} value={position} aria-label="Moment of the explanation"
          aria-valuetext={`${duration(of.time_ns)}${of.measured ? ", measured" : ""}`} onInput={(e) => onAt(m.list[among[Number(e.currentTarget.value)]].time_ns)} /></label>
        <span class="muted" id="moment-place" data-ns={of.time_ns} data-measured={of.measured}>{duration(of.time_ns)}; {position + 1} of {plural(among.length, "moment")}, {among.filter(measured).length} of them measured</span>
      </div>
      {of.measured ? <><Measured m={m} of={of} /><Waterfall id="waterfall" m={m} of={of} /></> : <Unmeasured p={p} m={m} of={of} nearest={nearest} outside={outside} onAt={onAt} />}
      {m.map && m.map.rows.length > 0 && <HeapMapView m={m} moment={index} dark={dark} />}
      <Advice m={m} of={of} />
      <Keepers m={m} of={of} />
      <Arenas of={of} />
      <p class="muted small">{of.arenas
        ? "Known are the addresses of all live blocks, and what the kernel counted as resident in the heap and in the arenas together; whether a single free page is resident is not. Free pages below blocks are taken to be."
        : "Known are the addresses of all live blocks. How this allocator divides its memory is not, so free pages between blocks cannot be distinguished from memory that was never its own."}</p>
    </div>
  );
}
