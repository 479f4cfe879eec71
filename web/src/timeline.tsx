/** The time axis: live, usable and resident bytes, marks; dragging over it chooses a range. */
import { useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useRangePlot, type RangePlot } from "./brush";
import type { Process } from "./data";
import { bytes, exact } from "./units";

const SERIES = [
  { key: "live", name: "Live (ideal RSS)", about: "Bytes the program asked for and has not released: what a perfect allocator would keep resident" },
  { key: "usable", name: "Usable", about: "Live bytes with the allocator's rounding" },
  { key: "rss", name: "Resident (RSS)", about: "Resident size of the process, with the recorder's own memory" },
  { key: "free", name: "Free in the allocator", about: "Free chunks and headers in the heap and the arenas, where the kernel was asked for the split" },
  { key: "vmsize", name: "Virtual (VmSize)", about: "Mapped address space" },
] as const;
type Key = (typeof SERIES)[number]["key"];

/** Two points a bin: its highest moment and its end, so that no peak is lost. */
function points(p: Process): uPlot.AlignedData {
  const { bins } = p.page;
  const x: number[] = [bins.start_ns];
  const live: number[] = [p.page.rows.start_bytes.reduce((a, b) => a + b, 0)];
  const usable: (number | null)[] = [null];
  for (let b = 0; b < bins.count; b++) {
    const end = bins.start_ns + (b + 1) * bins.width_ns;
    const high = Math.min(Math.max(bins.max_time_ns[b], x[x.length - 1]), end - 1);
    if (high > x[x.length - 1]) {
      x.push(high);
      live.push(bins.max_bytes[b]);
      usable.push(null);
    }
    x.push(end);
    live.push(bins.live_bytes[b]);
    usable.push(bins.usable_bytes[b]);
  }
  const samples = p.raw.resident.map((r) => [r.time_ns, r.rss_bytes, r.vmsize_bytes]);
  if (p.raw.peak_rss_bytes !== null && p.raw.peak_rss_time_ns !== null && !samples.some((s) => s[1] === p.raw.peak_rss_bytes))
    samples.push([p.raw.peak_rss_time_ns, p.raw.peak_rss_bytes, NaN]);
  samples.sort((a, b) => a[0] - b[0]);
  const seen = samples.filter((s, i) => i === 0 || s[0] > samples[i - 1][0]);
  const tables: uPlot.AlignedData[] = [[x, live, usable]];
  if (seen.length) tables.push([seen.map((s) => s[0]), seen.map((s) => s[1]), seen.map((s) => (Number.isNaN(s[2]) ? null : s[2]))]);
  const splits = p.page.splits.filter((s, i, all) => i === 0 || s.time_ns > all[i - 1].time_ns);
  if (splits.length) tables.push([splits.map((s) => s.time_ns), splits.map((s) => Math.max(0, s.heap_free_bytes + s.allocator_bytes))]);
  return tables.length > 1 ? uPlot.join(tables) : tables[0];
}

export function Timeline(props: RangePlot) {
  const { p, range, whole, onRange } = props;
  const box = useRef<HTMLDivElement>(null);
  const [hidden, setHidden] = useState<Record<Key, boolean>>({ live: false, usable: false, rss: false, free: true, vmsize: true });
  const hasResident = p.raw.resident.length > 0;
  const hasSplits = p.page.splits.length > 0;
  const data = useMemo(() => points(p), [p]);
  const bins = p.page.bins;

  useRangePlot(box, props, 230, (theme) => {
    const series: uPlot.Series[] = [
      { label: "Live", stroke: theme.live, width: 1.5, fill: `${theme.live}44`, points: { show: false }, spanGaps: true, show: !hidden.live, value: (_u, v) => (v === null ? "" : bytes(v)) },
      { label: "Usable", stroke: theme.usable, width: 1, dash: [2, 2], points: { show: false }, spanGaps: true, show: !hidden.usable, value: (_u, v) => (v === null ? "" : bytes(v)) },
    ];
    if (hasResident) {
      series.push({ label: "Resident", stroke: theme.rss, width: 1.5, points: { show: p.raw.resident.length < 3 }, spanGaps: true, show: !hidden.rss });
      series.push({ label: "Virtual", stroke: theme.vmsize, width: 1, dash: [6, 3], points: { show: false }, spanGaps: true, show: !hidden.vmsize });
    }
    if (hasSplits) series.push({ label: "Free", stroke: theme.mark, width: 1, dash: [1, 3], points: { show: true, size: 5 }, spanGaps: true, show: !hidden.free });
    return {
      series,
      data,
      vertical: { values: (_u, ticks) => ticks.map((t) => bytes(t)), incrs: Array.from({ length: 50 }, (_x, i) => 2 ** i) },
      points: { size: 6 },
      draw: (u) => {
        const g = u.ctx;
        const scale = window.devicePixelRatio || 1;
        g.save();
        g.strokeStyle = g.fillStyle = theme.mark;
        g.lineWidth = scale;
        g.font = `${11 * scale}px system-ui, sans-serif`;
        g.textAlign = "left";
        let last = -Infinity;
        for (const mark of p.page.marks) {
          const x = u.valToPos(mark.time_ns, "x", true);
          g.setLineDash([4 * scale, 3 * scale]);
          g.beginPath();
          g.moveTo(x, u.bbox.top);
          g.lineTo(x, u.bbox.top + u.bbox.height);
          g.stroke();
          if (x > last + 60 * scale) {
            g.fillText(mark.label ?? mark.control ?? "", x + 3 * scale, u.bbox.top + 12 * scale);
            last = x;
          }
        }
        g.restore();
      },
    };
  }, [data, hidden, hasResident, hasSplits]);

  const onKey = (event: KeyboardEvent) => {
    const { from, to } = range;
    const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (event.key === "Escape") onRange(0, 0);
    else if (!step) return;
    else if (whole) onRange(0, Math.ceil(bins.count / 10));
    else if (event.shiftKey) onRange(from, Math.max(from + 1, Math.min(bins.count, to + step)));
    else if (from + step >= 0 && to + step <= bins.count) onRange(from + step, to + step);
    event.preventDefault();
  };

  return (
    <div>
      <div class="legend">
        {SERIES.filter((s) => (s.key === "free" ? hasSplits : hasResident || (s.key !== "rss" && s.key !== "vmsize"))).map((s) =>
          <label key={s.key} title={s.about}>
            <input type="checkbox" checked={!hidden[s.key]} onChange={() => setHidden({ ...hidden, [s.key]: !hidden[s.key] })} />
            <i class={`swatch ${s.key}`} />{s.name}
          </label>)}
        {!hasResident && <span class="muted">No samples of the resident size in this recording.</span>}
        {p.page.marks.length > 0 && <span><i class="swatch marks" />Marks{p.page.marks_total > p.page.marks.length ? ` (the first ${p.page.marks.length} of ${exact(p.page.marks_total)})` : ""}</span>}
      </div>
      <div ref={box} id="timeline" class="plot" tabIndex={0} role="group" onKeyDown={onKey}
        aria-label="Timeline. Drag to choose a range of time; with the keyboard, left and right move it, with shift they make it longer or shorter, Escape ends it." />
    </div>
  );
}
