/** The page of `mallow compare`: time, memory and fragmentation of allocators, side by side. */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { themeNow } from "./colours";
import { Section, Title, useColours, useReady } from "./shell";
import { bytes, duration, exact } from "./units";

interface Cell {
  median: number | null;
  least: number | null;
  most: number | null;
  ratio?: number | null;
  ratio_low?: number | null;
  ratio_high?: number | null;
  differs?: boolean;
  best: boolean;
  worst: boolean;
}

interface Run {
  candidate: string;
  round: number;
  allocator: string;
  start_rss_bytes?: number;
  timeline?: { time_ns: number; rss_bytes: number; vmsize_bytes: number; ideal_bytes: number }[];
}

type Candidate = { candidate: string } & Record<string, Cell | string>;

export interface CompareDocument {
  rounds: number;
  ratio_to: string;
  precise: boolean;
  candidates: Candidate[];
  runs: Run[];
}

const UNITS: [RegExp, (v: number) => string][] = [
  [/_ns$/, duration], [/_bytes$/, bytes], [/cycles$/, (v) => `${exact(v)} cycles`], [/./, (v) => v.toFixed(3)],
];
export const showOf = (key: string) => UNITS.find(([r]) => r.test(key))![1];
export const nameOf = (key: string) => {
  const words = key.replace(/_(ns|bytes)$/, "").replace(/_/g, " ").replace(/\brss\b/, "RSS").replace(/\bcpu\b/, "CPU");
  return words[0].toUpperCase() + words.slice(1);
};
/** Lines differ in color and in dashes. */
export const LINES: [string, string, number[]][] = [
  ["#0072b2", "#56b4e9", []], ["#c64f00", "#f08a3c", []], ["#00795a", "#2fc49b", []], ["#9b4f80", "#dd9cc4", []],
  ["#7a6a00", "#e0d24a", [8, 4]], ["#444444", "#cccccc", [3, 3]], ["#0072b2", "#56b4e9", [8, 4]], ["#c64f00", "#f08a3c", [3, 3]],
];

/** An axis of the plane; `metric` tells the unit. */
export interface Axis {
  from: number;
  to: number;
  name: string;
  metric: string;
}

/** Round values between two ends, about `most` of them: powers of two for bytes, of ten otherwise. */
export function ticksOf(a: Axis, most: number): number[] {
  const rough = (a.to - a.from) / most;
  const step = /_bytes$/.test(a.metric) ? 2 ** Math.ceil(Math.log2(rough)) : [1, 2, 5, 10].map((m) => m * 10 ** Math.floor(Math.log10(rough))).find((v) => v >= rough)!;
  const out: number[] = [];
  for (let i = Math.ceil(a.from / step); i * step <= a.to; i++) out.push(i * step);
  return out;
}

/** Two axes with a grid; what is drawn on it is told where a value lies, and how wide it is. */
export function Plane({ id, x, y, children }: { id: string; x: Axis; y: Axis; children: (px: (v: number) => number, py: (v: number) => number, width: number) => ComponentChildren }) {
  const [w, h, left, bottom, edge] = [1000, 360, 84, 44, 10];
  const px = (v: number) => left + ((v - x.from) / (x.to - x.from)) * (w - left - edge);
  const py = (v: number) => h - bottom - ((v - y.from) / (y.to - y.from)) * (h - bottom - edge);
  return (
    <div class="table-box"><svg class="scatter" id={id} viewBox={`0 0 ${w} ${h}`} role="img" aria-label={`${x.name} against ${y.name}; nearer to the lower left is better`}>
      {ticksOf(y, 5).map((t) => <g key={t} class="axis"><line x1={left} x2={w - edge} y1={py(t)} y2={py(t)} /><text x={left - 6} y={py(t) + 4} text-anchor="end">{t ? showOf(y.metric)(t) : "0"}</text></g>)}
      {ticksOf(x, 8).map((t) => <g key={t} class="axis"><line x1={px(t)} x2={px(t)} y1={edge} y2={h - bottom} /><text x={px(t)} y={h - bottom + 16} text-anchor={px(t) > w - 40 ? "end" : "middle"}>{t ? showOf(x.metric)(t) : "0"}</text></g>)}
      <text class="label" x={(w + left) / 2} y={h - 6} text-anchor="middle">{x.name}</text>
      <text class="label" transform={`translate(14 ${h / 2}) rotate(-90)`} text-anchor="middle">{y.name}</text>
      {children(px, py, w)}
    </svg></div>
  );
}

export function AxisPickers({ keys, x, y, onX, onY }: { keys: string[]; x: string; y: string; onX: (key: string) => void; onY: (key: string) => void }) {
  const options = keys.map((k) => <option key={k} value={k}>{nameOf(k)}</option>);
  return (
    <div class="controls">
      <label>Across <select value={x} onChange={(e) => onX(e.currentTarget.value)} id="axis-x">{options}</select></label>
      <label>Up <select value={y} onChange={(e) => onY(e.currentTarget.value)} id="axis-y">{options}</select></label>
    </div>
  );
}

export interface Label {
  x: number;
  y: number;
  anchor: "start" | "end";
}

/** A place for the name of each point, beside it, where it covers no other name and as few points as can be. */
export function placeLabels(points: { x: number; y: number; text: string }[], width: number): Label[] {
  const taken: [number, number, number, number][] = [];
  const overlaps = (a: number[], b: number[]) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  return points.map((p) => {
    const long = 6.6 * p.text.length;
    let best: { cost: number; label: Label; box: [number, number, number, number] } | null = null;
    for (const dy of [-10, 18, -26, 34, -42, 50])
      for (const side of [1, -1]) {
        const label: Label = { x: p.x + 12 * side, y: p.y + dy, anchor: side > 0 ? "start" : "end" };
        const left = side > 0 ? label.x : label.x - long;
        const box: [number, number, number, number] = [left, label.y - 11, left + long, label.y + 3];
        const outside = box[0] < 84 || box[2] > width || box[1] < 0;
        const cost = (outside ? 1000 : 0) + 100 * taken.filter((t) => overlaps(t, box)).length + 10 * points.filter((q) => overlaps([q.x - 8, q.y - 8, q.x + 8, q.y + 8], box)).length + Math.abs(dy) / 10 + (side < 0 ? 1 : 0);
        if (!best || cost < best.cost) best = { cost, label, box };
      }
    taken.push(best!.box);
    return best!.label;
  });
}

/** Those that no other beats in both, from left to right. */
export function frontOf<T>(points: T[], x: (q: T) => number, y: (q: T) => number): T[] {
  return points.filter((a) => !points.some((b) => b !== a && x(b) <= x(a) && y(b) <= y(a) && (x(b) < x(a) || y(b) < y(a)))).sort((a, b) => x(a) - x(b));
}

function cellOf(c: Candidate, key: string): Cell | null {
  const v = c[key];
  return typeof v === "object" && v !== null && v.median !== null ? v : null;
}

function Scatter({ d, x, y, dark }: { d: CompareDocument; x: string; y: string; dark: boolean }) {
  const points = d.candidates.map((c, i) => ({ i, name: c.candidate, x: cellOf(c, x), y: cellOf(c, y) })).filter((q) => q.x && q.y) as { i: number; name: string; x: Cell; y: Cell }[];
  if (!points.length) return null;
  const axis = (key: "x" | "y", metric: string): Axis => ({ from: 0, to: Math.max(...points.map((q) => q[key].most ?? q[key].median!)) * 1.12 || 1, name: nameOf(metric), metric });
  const front = frontOf(points, (q) => q.x.median!, (q) => q.y.median!);
  return (
    <Plane id="pareto" x={axis("x", x)} y={axis("y", y)}>{(px, py, width) => {
      const labels = placeLabels(points.map((q) => ({ x: px(q.x.median!), y: py(q.y.median!), text: q.name })), width);
      return <>
      <polyline class="front" points={front.map((q) => `${px(q.x.median!)},${py(q.y.median!)}`).join(" ")} />
      {points.map((q, at) => {
        const best = front.includes(q);
        const colour = LINES[q.i % LINES.length][dark ? 1 : 0];
        return <g key={q.name} data-candidate={q.name} data-front={best || undefined}>
          <title>{`${q.name}: ${showOf(x)(q.x.median!)}, ${showOf(y)(q.y.median!)}${best ? "; no other is better in both" : ""}`}</title>
          <line class="spread" x1={px(q.x.least ?? q.x.median!)} x2={px(q.x.most ?? q.x.median!)} y1={py(q.y.median!)} y2={py(q.y.median!)} stroke={colour} />
          <line class="spread" x1={px(q.x.median!)} x2={px(q.x.median!)} y1={py(q.y.least ?? q.y.median!)} y2={py(q.y.most ?? q.y.median!)} stroke={colour} />
          <circle cx={px(q.x.median!)} cy={py(q.y.median!)} r={6} fill={best ? colour : "none"} stroke={colour} />
          <text x={labels[at].x} y={labels[at].y} text-anchor={labels[at].anchor}>{q.name}</text>
        </g>;
      })}
    </>;
    }}</Plane>
  );
}

export function OverTime({ d, dark }: { d: CompareDocument; dark: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const [hidden, setHidden] = useState<string[]>([]);
  /** Of each candidate the first run that has samples. */
  const runs = useMemo(() => d.candidates.map((c) => d.runs.find((r) => r.candidate === c.candidate && (r.timeline?.length ?? 0) > 1)).filter((r): r is Run => !!r), [d]);
  useEffect(() => {
    if (!box.current || !runs.length) return;
    const theme = themeNow();
    const axis = { stroke: theme.muted, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line }, font: "12px system-ui, sans-serif" };
    const clean = (t: NonNullable<Run["timeline"]>) => t.filter((q, i) => i === 0 || q.time_ns > t[i - 1].time_ns);
    const tables = runs.map((r) => {
      const t = clean(r.timeline!);
      return [t.map((q) => q.time_ns), t.map((q) => Math.max(0, q.rss_bytes - (r.start_rss_bytes ?? 0)))] as uPlot.AlignedData;
    });
    const ideal = clean(runs[0].timeline!);
    tables.push([ideal.map((q) => q.time_ns), ideal.map((q) => q.ideal_bytes)] as uPlot.AlignedData);
    const series: uPlot.Series[] = [{}];
    for (const r of runs) {
      const [light, darker, dash] = LINES[d.candidates.findIndex((c) => c.candidate === r.candidate) % LINES.length];
      series.push({ label: r.candidate, stroke: dark ? darker : light, dash, width: 1.5, spanGaps: true, points: { show: false }, show: !hidden.includes(r.candidate) });
    }
    series.push({ label: "ideal", stroke: theme.muted, width: 1, fill: `${theme.muted}22`, spanGaps: true, points: { show: false } });
    const u = new uPlot({
      width: box.current.clientWidth, height: 280, legend: { show: false }, series, scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, (max || 1) * 1.05] } },
      axes: [{ ...axis, size: 34, values: (_u, ticks) => ticks.map((t) => (t === 0 ? "0" : duration(t))), space: 80 }, { ...axis, size: 70, values: (_u, ticks) => ticks.map((t) => bytes(t)), incrs: Array.from({ length: 50 }, (_x, i) => 2 ** i) }],
    }, uPlot.join(tables), box.current);
    const watch = new ResizeObserver(() => box.current && u.setSize({ width: box.current.clientWidth, height: 280 }));
    watch.observe(box.current);
    return () => {
      watch.disconnect();
      u.destroy();
    };
  }, [runs, dark, hidden, d]);
  if (!runs.length) return <p class="muted">The runs hold no samples over time.</p>;
  return (
    <div>
      <div class="legend">{runs.map((r) => {
        const [light, darker, dash] = LINES[d.candidates.findIndex((c) => c.candidate === r.candidate) % LINES.length];
        return <label key={r.candidate}><input type="checkbox" checked={!hidden.includes(r.candidate)} onChange={() => setHidden(hidden.includes(r.candidate) ? hidden.filter((n) => n !== r.candidate) : [...hidden, r.candidate])} />
          <i class="swatch" style={{ borderTop: `3px ${dash.length ? "dashed" : "solid"} ${dark ? darker : light}`, height: 0, verticalAlign: 3 }} />{r.candidate}</label>;
      })}<span><i class="swatch" style={{ background: "var(--strong)" }} />Ideal: live bytes asked for</span></div>
      <div ref={box} class="plot" id="over-time" />
    </div>
  );
}

/** Medians of all figures, with marks and the ratio to the first. */
export function Candidates({ d }: { d: CompareDocument }) {
  const keys = metricsOf(d);
  const p = (r: number) => `${r > 1 ? "+" : ""}${((r - 1) * 100).toFixed(1)} %`;
  return (
    <div class="table-box"><table class="plain" id="candidates">
      <thead><tr><th scope="col">Candidate</th>{keys.map((k) => <th key={k} class="number" scope="col">{nameOf(k)}</th>)}</tr></thead>
      <tbody>{d.candidates.map((c) => <tr key={c.candidate}><td><b>{c.candidate}</b></td>
        {keys.map((k) => {
          const v = cellOf(c, k);
          if (!v) return <td key={k} class="number muted">·</td>;
          const hasRatio = typeof v.ratio === "number" && v.ratio !== null;
          return <td key={k} class="number" data-metric={k} data-exact={v.median!} title={`median ${exact(v.median!)}; ${showOf(k)(v.least!)} to ${showOf(k)(v.most!)}`}>
            {v.best && <span title="surely better than the worst">▲ </span>}{v.worst && <span title="surely worse than the best">▼ </span>}{showOf(k)(v.median!)}
            <div class="muted small" title={hasRatio && typeof v.ratio_low === "number" ? `${p(v.ratio_low)} to ${p(v.ratio_high!)}` : ""}>{!hasRatio ? " " : v.differs ? p(v.ratio!) : `= (${p(v.ratio!)})`}</div>
          </td>;
        })}</tr>)}</tbody>
    </table></div>
  );
}

/** The figures that any candidate has. */
const metricsOf = (d: CompareDocument) => Object.keys(d.candidates[0] ?? {}).filter((k) => k !== "candidate" && d.candidates.some((c) => cellOf(c, k)));

export function ComparePage({ d }: { d: CompareDocument }) {
  const colours = useColours();
  const keys = metricsOf(d);
  const time = keys.find((k) => /cpu/.test(k)) ?? keys.find((k) => /_ns$/.test(k)) ?? keys[0];
  const memory = keys.find((k) => /peak/.test(k)) ?? keys[1] ?? keys[0];
  const [x, setX] = useState(time);
  const [y, setY] = useState(memory);
  useReady(true);
  return (
    <main>
      <header>
        <Title text={`Comparison of ${d.candidates.length} allocators and settings`} colours={colours} />
        <p class="muted">{exact(d.rounds)} rounds of the same workload; in each, every candidate ran once. Medians, and their ratio to {d.ratio_to === "baseline" ? "the baseline" : d.candidates[0]?.candidate}.
          {!d.precise && " The rounds did not suffice for the precision that was asked for."}</p>
      </header>
      <Section id="how-much" title="How much?" question="smaller is better in every column; ▲ and ▼ mark those that are surely best and worst">
        <Candidates d={d} />
      </Section>
      <Section id="trade" title="What does it cost?" question="nearer to the lower left is better; the line joins those that no other beats in both">
        <AxisPickers keys={keys} x={x} y={y} onX={setX} onY={setY} />
        <Scatter d={d} x={x} y={y} dark={colours.dark} />
      </Section>
      <Section id="when" title="When?" question="resident size above the start, one run of each">
        <OverTime d={d} dark={colours.dark} />
      </Section>
      <footer class="muted small">This page needs nothing but itself.</footer>
    </main>
  );
}
