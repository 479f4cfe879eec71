/** Sizes, lifetimes, reallocs and threads: what the blocks are like. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cleared } from "./canvas";
import { themeNow } from "./colours";
import { LIFETIMES, SIZES, type Counts, type Process } from "./data";
import { Tip } from "./flame";
import { laneFigures, type FigureList, type Range } from "./figures";
import { siteFrame } from "./frames";
import { drawLevels, levelAt, levelPoints, LEVELS, type Level } from "./levels";
import { siteTitle } from "./names";
import { bytes, count, duration, exact, percent, plural } from "./units";

export interface Bar {
  label: string;
  title: string;
  value: number;
}

export function Bars({ bars, show, id }: { bars: Bar[]; show: (v: number) => string; id?: string }) {
  const max = Math.max(...bars.map((b) => b.value), 1);
  const sum = bars.reduce((s, b) => s + b.value, 0);
  return (
    <table class="bars" id={id}>
      <tbody>
        {bars.map((b) => (
          <tr key={b.label} title={`${b.title}: ${exact(b.value)}, ${percent(b.value, sum)}`}>
            <th scope="row">{b.label}</th>
            <td class="bar"><i style={{ width: `${(100 * b.value) / max}%`, minWidth: b.value ? "1px" : 0 }} /></td>
            <td class="number" data-exact={b.value}>{show(b.value)}</td>
            <td class="number muted">{percent(b.value, sum)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Sums over the bins of a range. */
function inRange(c: Counts, width: number, range: Range): Counts {
  const out = { count: new Float64Array(width), bytes: new Float64Array(width) };
  for (let b = range.from; b < range.to; b++)
    for (let i = 0; i < width; i++) {
      out.count[i] += c.count[b * width + i];
      out.bytes[i] += c.bytes[b * width + i];
    }
  return out;
}

type Unit = "count" | "bytes";

function UnitPicker({ unit, onUnit, calls }: { unit: Unit; onUnit: (u: Unit) => void; calls: string }) {
  return (
    <div class="segmented" role="group" aria-label="Count by">
      <button aria-pressed={unit === "count"} onClick={() => onUnit("count")}>{calls}</button>
      <button aria-pressed={unit === "bytes"} onClick={() => onUnit("bytes")}>Bytes</button>
    </div>
  );
}

export function Sizes({ p, range }: { p: Process; range: Range }) {
  const [unit, setUnit] = useState<Unit>("count");
  const c = useMemo(() => inRange(p.sizes, SIZES, range), [p, range]);
  const bars: Bar[] = [];
  for (let bits = 0; bits < 65; bits++) {
    let value = 0;
    let calls = 0;
    for (let q = 0; q < 4; q++) {
      value += c[unit][bits * 4 + q];
      calls += c.count[bits * 4 + q];
    }
    const min = bits ? 2 ** (bits - 1) : 0;
    if (calls || (bars.length && bits < 65))
      bars.push({ label: bits ? (min === 2 ** bits - 1 ? bytes(min) : `${bytes(min)} – ${bytes(bits > 10 ? 2 ** bits : 2 ** bits - 1)}`) : "0 B", title: `${exact(min)} to ${exact(bits ? 2 ** bits - 1 : 0)} bytes`, value });
  }
  while (bars.length && !bars[bars.length - 1].value) bars.pop();
  return (
    <section class="card">
      <div class="card-head"><h3>Sizes asked for</h3><UnitPicker unit={unit} onUnit={setUnit} calls="Calls" /></div>
      {bars.length ? <Bars id="size-bars" bars={bars} show={unit === "count" ? count : bytes} /> : <p class="muted">No allocation in this range.</p>}
    </section>
  );
}

export function Lifetimes({ p, range, whole }: { p: Process; range: Range; whole: boolean }) {
  const [unit, setUnit] = useState<Unit>("count");
  const c = useMemo(() => inRange(p.lifetimes, LIFETIMES, range), [p, range]);
  const bars: Bar[] = [];
  for (let k = 0; k < LIFETIMES; k++)
    bars.push({
      label: k === 0 ? `under ${duration(p.minLifetime[1])}` : k === LIFETIMES - 1 ? `${duration(p.minLifetime[k])} or more` : `${duration(p.minLifetime[k])} – ${duration(p.minLifetime[k + 1])}`,
      title: `lived at least ${duration(p.minLifetime[k])}`, value: c[unit][k],
    });
  while (bars.length && !bars[bars.length - 1].value) bars.pop();
  const bins = p.page.bins;
  const still = unit === "count" ? bins.live_blocks[range.to - 1] : bins.live_bytes[range.to - 1];
  if (still) bars.push({ label: whole ? "still live" : "live at its end", title: "not released yet", value: still });
  return (
    <section class="card">
      <div class="card-head"><h3>How long blocks lived</h3><UnitPicker unit={unit} onUnit={setUnit} calls="Blocks" /></div>
      {bars.length ? <Bars id="life-bars" bars={bars} show={unit === "count" ? count : bytes} /> : <p class="muted">No block was released in this range.</p>}
    </section>
  );
}

const PLOT = { height: 260, left: 64, bottom: 6, top: 6, right: 6 };
/** Below it: what is resident, then the time. */
const STRIP = { height: 110, axis: 22 };

const NO_STEPS: { time_ns: number; bytes: number }[] = [];

/** What is known of glibc's mmap threshold, in words. */
function thresholdText(p: Process): string {
  const t = p.raw.mmap_threshold;
  if (!t) return "";
  if (!t.known)
    return `glibc's mmap threshold is not known: ${t.why_not === "contradicted" ? `the program set it, since a block of ${bytes(t.contradiction_bytes ?? 0)} had a mapping of its own`
      : t.why_not === "inherited" ? "a fork keeps its parent's, which may have been raised" : t.why_not === "lost calls" ? "calls were lost" : t.why_not}.`;
  const last = t.steps[t.steps.length - 1].bytes;
  const from = t.start === "assumed" ? " (the environment was not recorded, and is taken not to set it)" : t.start === "environment" ? " (set by the environment)" : "";
  return t.fixed ? `Dashed: glibc's mmap threshold, ${bytes(last)}${from}.`
    : t.steps.length === 1 ? `Dashed: glibc's mmap threshold, ${bytes(last)} all the time${from}.`
    : `Dashed: glibc's mmap threshold, raised by frees from ${bytes(t.steps[0].bytes)}${from} to ${bytes(last)} in ${plural(t.steps.length - 1, "step")}.`;
}

/** Sizes over time: a field for each slice of time and quarter of a power of two, darker for more calls; beside RSS, VmSize and live bytes. */
export function SizesOverTime({ p, range, whole, dark }: { p: Process; range: Range; whole: boolean; dark: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<{ x: number; y: number; bin: number; index: number } | null>(null);
  const [hidden, setHidden] = useState<Record<Level, boolean>>({ rss: false, live: false, vmsize: true });
  const levels = useMemo(() => levelPoints(p, range), [p, range]);
  const { bins } = p.page;
  const threshold = p.raw.mmap_threshold;
  const steps = threshold?.known ? threshold.steps : NO_STEPS;
  const extent = useMemo(() => {
    let [low, high, most] = [SIZES, 0, 1];
    for (let b = range.from; b < range.to; b++)
      for (let i = 0; i < SIZES; i++) {
        const v = p.sizes.count[b * SIZES + i];
        if (!v) continue;
        low = Math.min(low, i);
        high = Math.max(high, i);
        most = Math.max(most, v);
      }
    const mostThreshold = Math.max(0, ...steps.map((s) => Math.ceil(Math.log2(s.bytes)) * 4 + 4));
    return { low: Math.max(0, Math.min(low, high) - 2), high: Math.max(high + 4, high > 60 ? mostThreshold : 0), most };
  }, [p, range, steps]);
  const own = useMemo(() => {
    let smallest = Infinity;
    let n = 0;
    for (let b = range.from; b < range.to; b++)
      if (bins.mmapped_min_bytes[b]) {
        smallest = Math.min(smallest, bins.mmapped_min_bytes[b]);
        n++;
      }
    return { smallest, n };
  }, [bins, range]);

  const means = useMemo(() => Array.from({ length: bins.count }, (_v, b) => {
    let [calls, sum] = [0, 0];
    for (let i = b * SIZES; i < (b + 1) * SIZES; i++) {
      calls += p.sizes.count[i];
      sum += p.sizes.bytes[i];
    }
    return calls ? Math.max(1, sum / calls) : 0;
  }), [p, bins]);

  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);

  const n = range.to - range.from;
  const plotW = Math.max(1, width - PLOT.left - PLOT.right);
  const plotH = PLOT.height - PLOT.top - PLOT.bottom;
  const fromNs = bins.start_ns + range.from * bins.width_ns;
  const toNs = bins.start_ns + range.to * bins.width_ns;
  const x = (bin: number) => PLOT.left + ((bin - range.from) / n) * plotW;
  const y = (index: number) => PLOT.top + plotH - ((index - extent.low) / (extent.high - extent.low + 1)) * plotH;
  /** Place of a size on the axis, between the fields. */
  const yOf = (size: number) => {
    const bits = Math.floor(Math.log2(size)) + 1;
    return y(bits * 4 + (size / 2 ** (bits - 1) - 1) * 4);
  };

  useEffect(() => {
    const c = canvas.current;
    if (!c || !width) return;
    const g = cleared(c, width, PLOT.height + STRIP.height + STRIP.axis);
    if (!g) return;
    const theme = themeNow();
    g.font = "12px system-ui, sans-serif";
    g.fillStyle = theme.muted;
    g.strokeStyle = theme.line;
    g.textBaseline = "middle";
    g.textAlign = "right";
    const step = (extent.high - extent.low) / 4 > 14 ? 4 : (extent.high - extent.low) / 4 > 7 ? 2 : 1;
    for (let bits = Math.ceil(extent.low / 4); bits * 4 <= extent.high; bits++) {
      if (bits < 1 || (bits - 1) % step) continue;
      const at = y(bits * 4);
      g.fillText(bytes(2 ** (bits - 1)), PLOT.left - 6, at);
      g.beginPath();
      g.moveTo(PLOT.left, at);
      g.lineTo(width - PLOT.right, at);
      g.stroke();
    }
    g.textAlign = "center";
    const start = bins.start_ns + range.from * bins.width_ns;
    const span = n * bins.width_ns;
    const ticks = Math.max(2, Math.floor(plotW / 140));
    for (let i = 0; i <= ticks; i++) {
      g.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      g.fillText(duration(start + (span * i) / ticks), PLOT.left + (plotW * i) / ticks, PLOT.height + STRIP.height + STRIP.axis / 2);
    }
    g.fillStyle = theme.live;
    const cell = Math.max(1, plotW / n - (plotW / n > 4 ? 1 : 0));
    const rowH = plotH / (extent.high - extent.low + 1);
    for (let b = range.from; b < range.to; b++)
      for (let i = extent.low; i <= extent.high; i++) {
        const v = p.sizes.count[b * SIZES + i];
        if (!v) continue;
        g.globalAlpha = 0.25 + (0.75 * Math.log(v + 1)) / Math.log(extent.most + 1);
        g.fillRect(x(b), y(i + 1), cell, Math.max(2, rowH - (rowH > 4 ? 1 : 0)));
      }
    g.globalAlpha = 1;
    // The mean size of the calls of each slice.
    g.strokeStyle = theme.text;
    g.beginPath();
    for (let b = range.from; b < range.to; b++) {
      if (!means[b]) continue;
      g.moveTo(x(b), yOf(means[b]));
      g.lineTo(x(b) + Math.max(3, cell), yOf(means[b]));
    }
    g.stroke();
    drawLevels(g, theme, levels, hidden, { left: PLOT.left, top: PLOT.height + 14, width: plotW, height: STRIP.height - 16 }, fromNs, toNs);
    if (own.n) {
      g.fillStyle = theme.rss;
      for (let b = range.from; b < range.to; b++)
        if (bins.mmapped_min_bytes[b]) g.fillRect(x(b), yOf(bins.mmapped_min_bytes[b]) - 1, Math.max(3, cell), 2.5);
    }
    if (steps.length && extent.high >= 70) {
      const xOf = (ns: number) => PLOT.left + Math.max(0, Math.min(1, (ns - start) / span)) * plotW;
      const inside = steps.filter((s) => s.time_ns <= start + span);
      g.strokeStyle = theme.rss;
      g.lineWidth = 1.5;
      g.setLineDash([6, 4]);
      g.beginPath();
      inside.forEach((s, i) => {
        if (i === 0) g.moveTo(xOf(s.time_ns), yOf(s.bytes));
        else {
          g.lineTo(xOf(s.time_ns), yOf(inside[i - 1].bytes));
          g.lineTo(xOf(s.time_ns), yOf(s.bytes));
        }
      });
      g.lineTo(width - PLOT.right, yOf(inside[inside.length - 1].bytes));
      g.stroke();
      g.setLineDash([]);
      g.lineWidth = 1;
      g.textAlign = "left";
      g.fillStyle = theme.text;
      inside.forEach((s, i) => {
        const [left, right] = [xOf(s.time_ns), i + 1 < inside.length ? xOf(inside[i + 1].time_ns) : width - PLOT.right];
        if (right - left > 180) g.fillText(`mmap threshold, ${bytes(s.bytes)}`, left + 6, yOf(s.bytes) - 9);
      });
    }
  }, [p, range, width, dark, extent, own, n, steps, levels, hidden, means]);

  const at = (e: MouseEvent) => {
    const rect = canvas.current!.getBoundingClientRect();
    const bin = Math.floor(range.from + ((e.clientX - rect.left - PLOT.left) / plotW) * n);
    const index = Math.floor(extent.low + ((PLOT.top + plotH - (e.clientY - rect.top)) / plotH) * (extent.high - extent.low + 1));
    const inside = bin >= range.from && bin < range.to;
    const strip = e.clientY - rect.top > PLOT.height;
    const field = index >= extent.low && index <= extent.high && p.sizes.count[bin * SIZES + index] > 0;
    setHover(inside && (strip || field) ? { x: e.clientX, y: e.clientY, bin, index: strip ? -1 : index } : null);
  };
  const sizeRange = (index: number) => {
    const bits = Math.floor(index / 4);
    if (!bits) return "0 bytes";
    const base = 2 ** (bits - 1);
    const from = Math.ceil(base + ((index % 4) * base) / 4);
    const to = Math.ceil(base + (((index % 4) + 1) * base) / 4) - 1;
    return from >= to ? `${exact(from)} bytes` : `${exact(from)} to ${exact(to)} bytes`;
  };
  return (
    <section class="card wide">
      <div class="card-head"><h3>Sizes over time, beside what is resident</h3>
        <span class="muted small">Darker: more calls. Short line: the mean of each slice. {own.n > 0 && <><i class="swatch rss" />Smallest block with a mapping of its own in each slice; {exact(own.smallest)} bytes is the smallest {whole ? "of the run" : "here"}.</>} <span id="threshold" data-exact={steps.length ? steps[steps.length - 1].bytes : undefined}>{thresholdText(p)}</span></span></div>
      <div class="legend">{LEVELS.filter((l) => levels[l.key].length).map((l) => <label key={l.key}>
        <input type="checkbox" checked={!hidden[l.key]} onChange={() => setHidden({ ...hidden, [l.key]: !hidden[l.key] })} /><i class={`swatch ${l.key}`} />{l.name}
      </label>)}</div>
      <div ref={box}>
        <canvas ref={canvas} id="sizes-over-time" style={{ width: `${width}px`, height: `${PLOT.height + STRIP.height + STRIP.axis}px` }} role="img" aria-label="Sizes of allocations over time, and below them resident, virtual and live bytes" onMouseMove={at} onMouseLeave={() => setHover(null)} />
      </div>
      {hover && <Tip x={hover.x} y={hover.y}>
        {hover.index >= 0 ? <>
          <b>{sizeRange(hover.index)}</b>
          <div>{plural(p.sizes.count[hover.bin * SIZES + hover.index], "call")}, {bytes(p.sizes.bytes[hover.bin * SIZES + hover.index])}</div>
        </> : LEVELS.filter((l) => levels[l.key].length).map((l) => <div key={l.key}>{l.name}: <b>{bytes(levelAt(levels[l.key], bins.start_ns + (hover.bin + 1) * bins.width_ns) ?? 0)}</b></div>)}
        {means[hover.bin] > 0 && <div class="muted">on average {bytes(means[hover.bin])} a call</div>}
        <div class="muted">{duration(bins.start_ns + hover.bin * bins.width_ns)} to {duration(bins.start_ns + (hover.bin + 1) * bins.width_ns)}</div>
      </Tip>}
    </section>
  );
}

export function Reallocs({ p }: { p: Process }) {
  const r = p.raw.reallocs;
  const bars: Bar[] = [];
  p.page.chain_lengths.forEach((v, bits) => {
    if (v) bars.push({ label: bits <= 1 ? "once" : `${exact(2 ** (bits - 1))} – ${exact(2 ** bits - 1)} times`, title: "blocks resized so often", value: v });
  });
  return (
    <section class="card">
      <div class="card-head"><h3>Chains of reallocs</h3><span class="muted small">whole run</span></div>
      {!r.resized ? <p class="muted">No block was resized.</p> : <>
        <p>{plural(r.resized, "resize")}: {count(r.grown)} grew, {count(r.shrunk)} shrank. <span title={`${exact(r.kept_bytes)} bytes`}>At most {bytes(r.kept_bytes)}</span> copied.</p>
        <Bars bars={bars} show={count} />
        <h4>Longest, by call site</h4>
        <table class="plain"><tbody>
          {p.page.chains.map((c, i) => <tr key={i}>
            <td>{siteTitle(p, siteFrame(p, c.group))}</td>
            <td class="number">{exact(c.resizes)} times</td><td class="number" title={`${exact(c.last_bytes)} bytes`}>to {bytes(c.last_bytes)}</td>
          </tr>)}
        </tbody></table>
      </>}
    </section>
  );
}

export function laneName(p: Process, lane: number): string {
  const l = p.page.lanes[lane];
  if (l.inherited) return "inherited at fork";
  if (l.tids.length !== 1) return `${plural(l.tids.length, "other thread")}`;
  return l.name ? `${l.name} (${l.tids[0]})` : `thread ${l.tids[0]}`;
}

export function Threads({ p, rows, range, onLane }: { p: Process; rows: FigureList; range: Range; onLane: (lane: number) => void }) {
  const lanes = p.page.lanes.length;
  const list = useMemo(() => {
    const out = laneFigures(p, rows).map(({ calls, allocated, peak, end }, lane) => ({ lane, calls, allocated, peak, end, releases: 0, released: 0 }));
    for (let b = range.from; b < range.to; b++)
      for (let l = 0; l < lanes; l++) {
        out[l].releases += p.laneReleases.count[b * lanes + l];
        out[l].released += p.laneReleases.bytes[b * lanes + l];
      }
    return out.filter((t) => t.calls || t.releases || t.peak || t.end);
  }, [p, rows, range]);
  const crossing: { from: number; to: number; count: number; bytes: number }[] = [];
  for (let a = 0; a < lanes; a++)
    for (let b = 0; b < lanes; b++)
      if (a !== b && p.handovers.count[a * lanes + b]) crossing.push({ from: a, to: b, count: p.handovers.count[a * lanes + b], bytes: p.handovers.bytes[a * lanes + b] });
  crossing.sort((a, b) => b.count - a.count);
  return (
    <section class="card wide">
      <div class="card-head"><h3>Threads: who allocates, who frees</h3></div>
      <div class="table-box">
        <table class="plain" id="threads">
          <thead><tr><th scope="col">Thread</th><th class="number" scope="col">Calls</th><th class="number" scope="col">Allocated</th><th class="number" scope="col">Live at the peak</th><th class="number" scope="col">At the end</th><th class="number" scope="col">Releases</th><th class="number" scope="col">Released</th></tr></thead>
          <tbody>{list.map((t) => <tr key={t.lane} data-lane={t.lane}>
            <td><button class="quiet link" onClick={() => onLane(t.lane)} title="Show only what this thread allocated">{laneName(p, t.lane)}</button></td>
            <td class="number" data-exact={t.calls} title={exact(t.calls)}>{count(t.calls)}</td>
            <td class="number" data-exact={t.allocated} title={exact(t.allocated)}>{bytes(t.allocated)}</td>
            <td class="number" data-exact={t.peak} title={exact(t.peak)}>{bytes(t.peak)}</td>
            <td class="number" data-exact={t.end} title={exact(t.end)}>{bytes(t.end)}</td>
            <td class="number" data-exact={t.releases} title={exact(t.releases)}>{count(t.releases)}</td>
            <td class="number" data-exact={t.released} title={exact(t.released)}>{bytes(t.released)}</td>
          </tr>)}</tbody>
        </table>
      </div>
      {crossing.length > 0 ? <>
        <h4>Blocks released by another thread than made them <span class="muted">whole run</span></h4>
        <table class="plain"><tbody>{crossing.slice(0, 20).map((c) => <tr key={`${c.from}-${c.to}`}>
          <td>{laneName(p, c.from)} → {laneName(p, c.to)}</td><td class="number" title={exact(c.count)}>{plural(c.count, "block")}</td><td class="number" title={exact(c.bytes)}>{bytes(c.bytes)}</td>
        </tr>)}</tbody></table>
        {crossing.length > 20 && <p class="muted">and {exact(crossing.length - 20)} more pairs of threads</p>}
      </> : p.page.lanes.length > 2 && <p class="muted">No block was released by another thread than the one that made it.</p>}
    </section>
  );
}

export function Calls({ p }: { p: Process }) {
  const bars = Object.entries(p.raw.calls).filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]).map(([name, value]) => ({ label: name, title: name, value }));
  return (
    <section class="card">
      <div class="card-head"><h3>Calls by function</h3><span class="muted small">whole run</span></div>
      <Bars bars={bars} show={count} />
      {p.page.failures.length > 0 && <>
        <h4>Calls that failed: {exact(p.raw.failed_calls)}{p.raw.failed_calls > p.page.failures.length && `, the first ${p.page.failures.length}`}</h4>
        <table class="plain"><tbody>{p.page.failures.map((f, i) => <tr key={i}>
          <td>{f.call}({exact(f.size_bytes)})</td><td>{siteTitle(p, siteFrame(p, f.group))}</td><td class="number">{duration(f.time_ns)}</td>
        </tr>)}</tbody></table>
      </>}
    </section>
  );
}
