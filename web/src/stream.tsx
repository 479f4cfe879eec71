/** Live bytes by call site over time: a streamgraph of the largest, and of all others as one. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cleared } from "./canvas";
import { themeNow } from "./colours";
import type { Process } from "./data";
import { liveSeries, type Range } from "./figures";
import { Tip } from "./flame";
import { namesOf, siteFrame } from "./frames";
import { Path, siteTitle } from "./names";
import { bytes, duration, exact, percent } from "./units";

const SHOWN = 11;
const PLOT = { height: 250, left: 70, right: 8, top: 6, bottom: 22 };
/** Colors also differ in lightness; the rest is gray. */
const HUES: [number, number, number][] = [
  [204, 100, 36], [36, 100, 46], [163, 100, 31], [327, 42, 60], [202, 76, 63], [18, 100, 42], [56, 80, 52], [270, 35, 52], [142, 38, 55], [350, 55, 68], [220, 45, 72],
];

function colorOf(layer: number, layers: number, rest: boolean, dark: boolean): string {
  if (rest && layer === layers - 1) return dark ? "hsl(210 6% 40%)" : "hsl(210 6% 72%)";
  const [h, s, l] = HUES[layer % HUES.length];
  return `hsl(${h} ${dark ? s * 0.8 : s}% ${dark ? l * 0.85 + 6 : l}%)`;
}

export interface Layer {
  frame: number; // see frames.ts
  sites: number; // call sites that it stands for
  live: Float64Array; // at the end of each bin
  start: number; // before the first
}

/** Every call site, over the whole run. */
function sitesOf(p: Process, lane: number): Layer[] {
  const rows = new Map<number, number[]>();
  for (let r = 0; r < p.rows; r++) {
    if (lane >= 0 && p.page.rows.lane[r] !== lane) continue;
    const frame = siteFrame(p, p.page.rows.group[r]);
    const list = rows.get(frame);
    if (list) list.push(r);
    else rows.set(frame, [r]);
  }
  return [...rows].map(([frame, list]) => ({ frame, sites: 1, live: liveSeries(p, list), start: list.reduce((sum, r) => sum + p.page.rows.start_bytes[r], 0) }));
}

/** The call sites that hold most at any end of a slice of the range, largest first, and all others as the last. */
export function layersOf(p: Process, sites: Layer[], range: Range, shown = SHOWN): Layer[] {
  const most = new Map<Layer, number>();
  for (const l of sites) {
    let high = range.from ? l.live[range.from - 1] : l.start;
    for (let b = range.from; b < range.to; b++) high = Math.max(high, l.live[b]);
    if (high > 0) most.set(l, high);
  }
  const layers = [...most.keys()];
  layers.sort((a, b) => most.get(b)! - most.get(a)! || a.frame - b.frame);
  if (layers.length <= shown + 1) return layers;
  const rest: Layer = { frame: NaN, sites: layers.length - shown, live: new Float64Array(p.bins), start: 0 };
  for (const l of layers.splice(shown)) {
    l.live.forEach((v, b) => (rest.live[b] += v));
    rest.start += l.start;
  }
  return [...layers, rest];
}

export function Stream({ p, range, lane, dark }: { p: Process; range: Range; lane: number; dark: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [stacked, setStacked] = useState(false);
  const [hover, setHover] = useState<{ x: number; y: number; bin: number; layer: number } | null>(null);
  const sites = useMemo(() => sitesOf(p, lane), [p, lane]);
  const layers = useMemo(() => layersOf(p, sites, range), [p, sites, range]);
  const names = useMemo(() => namesOf(p), [p]);
  const { bins } = p.page;
  const rest = layers.length > 0 && Number.isNaN(layers[layers.length - 1].frame);
  /** At the borders of the slices: [layer][0..n], the first at the start of the range. */
  const heights = useMemo(() => layers.map((l) => {
    const out = new Float64Array(range.to - range.from + 1);
    out[0] = range.from ? l.live[range.from - 1] : l.start;
    for (let b = range.from; b < range.to; b++) out[b - range.from + 1] = l.live[b];
    return out;
  }), [layers, range]);
  const sums = useMemo(() => {
    const out = new Float64Array(range.to - range.from + 1);
    for (const h of heights) h.forEach((v, i) => (out[i] += v));
    return out;
  }, [heights, range]);
  const most = Math.max(1, ...sums);
  const n = range.to - range.from;
  const plotW = Math.max(1, width - PLOT.left - PLOT.right);
  const plotH = PLOT.height - PLOT.top - PLOT.bottom;
  const x = (i: number) => PLOT.left + (i / n) * plotW;
  const base = (i: number) => (stacked ? 0 : (most - sums[i]) / 2);
  const y = (v: number) => PLOT.top + plotH * (1 - v / most);

  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);

  useEffect(() => {
    const c = canvas.current;
    const g = c && width ? cleared(c, width, PLOT.height) : null;
    if (!g) return;
    const theme = themeNow();
    g.font = "12px system-ui, sans-serif";
    g.fillStyle = theme.muted;
    g.strokeStyle = theme.line;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const part of stacked ? [0, 0.5, 1] : [0, 1]) {
      const at = y(part * most);
      if (stacked) g.fillText(part ? bytes(part * most) : "0 B", PLOT.left - 6, Math.max(at, 8));
      g.beginPath();
      g.moveTo(PLOT.left, at);
      g.lineTo(width - PLOT.right, at);
      g.stroke();
    }
    if (!stacked) g.fillText(bytes(most), PLOT.left - 6, PLOT.top + plotH / 2);
    const ticks = Math.max(2, Math.floor(plotW / 140));
    for (let i = 0; i <= ticks; i++) {
      g.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      g.fillText(duration(bins.start_ns + (range.from + (n * i) / ticks) * bins.width_ns), PLOT.left + (plotW * i) / ticks, PLOT.height - PLOT.bottom / 2);
    }
    const low = Float64Array.from(sums, (_v, i) => base(i));
    // The largest lies lowest.
    heights.forEach((h, k) => {
      g.beginPath();
      for (let i = 0; i <= n; i++) g.lineTo(x(i), y(low[i]));
      for (let i = n; i >= 0; i--) g.lineTo(x(i), y(low[i] + h[i]));
      g.closePath();
      g.fillStyle = colorOf(k, layers.length, rest, dark);
      g.globalAlpha = hover && hover.layer !== k ? 0.55 : 1;
      g.fill();
      for (let i = 0; i <= n; i++) low[i] += h[i];
    });
    g.globalAlpha = 1;
    if (hover) {
      g.strokeStyle = theme.focus;
      g.beginPath();
      g.moveTo(x(hover.bin - range.from + 1), PLOT.top);
      g.lineTo(x(hover.bin - range.from + 1), PLOT.top + plotH);
      g.stroke();
    }
  }, [heights, sums, width, dark, stacked, hover?.bin, hover?.layer, most]);

  const over = (e: MouseEvent) => {
    const rect = canvas.current!.getBoundingClientRect();
    const i = Math.round(((e.clientX - rect.left - PLOT.left) / plotW) * n);
    if (i < 1 || i > n) return setHover(null);
    const value = (1 - (e.clientY - rect.top - PLOT.top) / plotH) * most;
    let low = base(i);
    let layer = -1;
    heights.forEach((h, k) => {
      if (value >= low && value < low + h[i]) layer = k;
      low += h[i];
    });
    setHover({ x: e.clientX, y: e.clientY, bin: range.from + i - 1, layer });
  };
  const title = (l: Layer) => (Number.isNaN(l.frame) ? `${exact(l.sites)} other call sites` : siteTitle(p, l.frame));
  const highest = sums.reduce((best, v, i) => (i > 0 && v > sums[best] ? i : best), 1);
  const bin = hover ? hover.bin : range.from + highest - 1;
  const total = layers.reduce((sum, l) => sum + l.live[bin], 0);
  const endNs = bins.start_ns + (bin + 1) * bins.width_ns;
  return (
    <div class="stream" id="stream" data-bin={bin} data-total={total}>
      <div class="card-head"><h3>Live bytes by call site over time</h3>
        <div class="segmented" role="group" aria-label="Shape">
          <button aria-pressed={!stacked} onClick={() => setStacked(false)}>Stream</button>
          <button aria-pressed={stacked} id="stream-stacked" onClick={() => setStacked(true)}>Stacked</button>
        </div></div>
      {layers.length ? <>
        <div ref={box}>
          <canvas ref={canvas} style={{ width: `${width}px`, height: `${PLOT.height}px` }} role="img" onMouseMove={over} onMouseLeave={() => setHover(null)}
            aria-label="Live bytes by call site over time; the table of call sites holds the figures" />
        </div>
        <p class="muted small">At {duration(endNs)}{!hover && ", the end of the slice that ends with most"}: {bytes(total)} live</p>
        <ul class="layers">{layers.map((l, k) => <li key={l.frame} class={hover?.layer === k ? "chosen" : undefined} data-exact={l.live[bin]} data-frame={Number.isNaN(l.frame) ? "rest" : l.frame}>
          <i class="swatch" style={{ background: colorOf(k, layers.length, rest, dark) }} />
          <span class="fn" title={l.frame >= 0 ? `${names.fn(l.frame)} ${names.place(l.frame)}` : undefined}>{title(l)}</span>
          <span class="number">{bytes(l.live[bin])}</span>
        </li>)}</ul>
      </> : <p class="muted">Nothing was live in this range at the end of any slice.</p>}
      {hover && hover.layer >= 0 && <Tip x={hover.x} y={hover.y}>
        <b>{title(layers[hover.layer])}</b>
        {layers[hover.layer].frame >= 0 && <div><Path place={names.place(layers[hover.layer].frame)} module={names.module(layers[hover.layer].frame)} /></div>}
        <div>{bytes(layers[hover.layer].live[bin])} <span class="muted">({exact(layers[hover.layer].live[bin])}, {percent(layers[hover.layer].live[bin], total)} of {bytes(total)})</span></div>
        <div class="muted">{duration(endNs)} after the start</div>
      </Tip>}
    </div>
  );
}
