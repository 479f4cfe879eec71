/** Resident, virtual and live bytes of a range, drawn below another plot on the same time axis. */
import type { Theme } from "./colours";
import type { Process } from "./data";
import type { Range } from "./figures";
import { nearestMoment } from "./moments";
import { bytes } from "./units";

export const LEVELS = [
  { key: "rss", name: "RSS" },
  { key: "live", name: "Live (ideal RSS)" },
  { key: "vmsize", name: "VmSize" },
] as const;
export type Level = (typeof LEVELS)[number]["key"];

export interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
}

type Point = [number, number]; // time, bytes

/** What is known of each level in a range, with one sample before and behind it. */
export function levelPoints(p: Process, range: Range): Record<Level, Point[]> {
  const { bins } = p.page;
  const from = bins.start_ns + range.from * bins.width_ns;
  const to = bins.start_ns + range.to * bins.width_ns;
  const live: Point[] = [[from, range.from ? bins.live_bytes[range.from - 1] : p.page.rows.start_bytes.reduce((a, b) => a + b, 0)]];
  for (let b = range.from; b < range.to; b++) {
    const end = bins.start_ns + (b + 1) * bins.width_ns;
    const high = Math.min(end - 1, bins.max_time_ns[b]);
    if (high > live[live.length - 1][0]) live.push([high, bins.max_bytes[b]]);
    live.push([end, bins.live_bytes[b]]);
  }
  const samples = p.raw.resident.filter((_r, i, all) => (i + 1 === all.length || all[i + 1].time_ns >= from) && (i === 0 || all[i - 1].time_ns <= to));
  return { live, rss: samples.map((r) => [r.time_ns, r.rss_bytes]), vmsize: samples.map((r) => [r.time_ns, r.vmsize_bytes]) };
}

/** The value next to a time; null where nothing is known. */
export function levelAt(points: Point[], timeNs: number): number | null {
  const at = nearestMoment(points.map(([time_ns]) => ({ time_ns })), points.map((_p, i) => i), timeNs);
  return at < 0 ? null : points[at][1];
}

export function drawLevels(g: CanvasRenderingContext2D, theme: Theme, points: Record<Level, Point[]>, hidden: Record<Level, boolean>, place: Place, fromNs: number, toNs: number): void {
  const shown = LEVELS.filter((l) => !hidden[l.key] && points[l.key].length);
  let most = 1;
  for (const l of shown) for (const [t, v] of points[l.key]) if (t >= fromNs && t <= toNs) most = Math.max(most, v);
  const x = (ns: number) => place.left + ((ns - fromNs) / (toNs - fromNs)) * place.width;
  const y = (v: number) => place.top + place.height * (1 - v / (most * 1.04));
  g.save();
  g.fillStyle = theme.muted;
  g.strokeStyle = theme.line;
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const v of [0, most]) {
    g.fillText(v ? bytes(v) : "0 B", place.left - 6, y(v));
    g.beginPath();
    g.moveTo(place.left, y(v));
    g.lineTo(place.left + place.width, y(v));
    g.stroke();
  }
  g.beginPath();
  g.rect(place.left, place.top, place.width, place.height);
  g.clip();
  for (const l of shown) {
    g.strokeStyle = theme[l.key];
    g.lineWidth = 1.5;
    g.setLineDash(l.key === "vmsize" ? [6, 3] : []);
    g.beginPath();
    for (const [t, v] of points[l.key]) g.lineTo(x(t), y(v));
    g.stroke();
  }
  g.restore();
}
