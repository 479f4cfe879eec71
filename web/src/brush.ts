/** Plots whose horizontal axis is that of the bins, and choosing a range of time on them. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { themeNow } from "./colours";
import type { Process } from "./data";
import type { Range } from "./figures";
import { duration } from "./units";

type Bins = Process["page"]["bins"];

/** Draws what is chosen. */
function showRange(u: uPlot, bins: Bins, range: Range, whole: boolean): void {
  const left = u.valToPos(bins.start_ns + range.from * bins.width_ns, "x");
  const right = u.valToPos(bins.start_ns + range.to * bins.width_ns, "x");
  u.setSelect(whole ? { left: 0, width: 0, top: 0, height: 0 } : { left, width: right - left, top: 0, height: u.over.clientHeight }, false);
}

/** The bins under what was dragged over, at least one; null when it was a click. */
function draggedRange(u: uPlot, bins: Bins): Range | null {
  if (u.select.width < 2) return null;
  const at = (left: number) => Math.round((u.posToVal(left, "x") - bins.start_ns) / bins.width_ns);
  const from = Math.max(0, Math.min(bins.count - 1, at(u.select.left)));
  return { from, to: Math.max(from + 1, Math.min(bins.count, at(u.select.left + u.select.width))) };
}

function drawMoment(u: uPlot, moment: number | undefined, color: string): void {
  if (moment === undefined) return;
  const x = u.valToPos(moment, "x", true);
  const size = 5 * (window.devicePixelRatio || 1);
  const g = u.ctx;
  g.save();
  g.fillStyle = color;
  g.globalAlpha = 0.85;
  g.fillRect(x - size / 10, u.bbox.top, size / 5, u.bbox.height);
  g.beginPath();
  g.moveTo(x - size, u.bbox.top);
  g.lineTo(x + size, u.bbox.top);
  g.lineTo(x, u.bbox.top + size * 1.4);
  g.fill();
  g.restore();
}

export interface RangePlot {
  p: Process;
  range: Range;
  whole: boolean;
  dark: boolean;
  onRange: (from: number, to: number) => void;
  /** The time that is explained below: a line. */
  moment?: number;
}

/** What one plot has of its own. */
export interface Drawing {
  series: uPlot.Series[]; // behind the one of time
  data: uPlot.AlignedData;
  vertical: uPlot.Axis; // beside the looks of an axis
  points: uPlot.Cursor.Points;
  draw?: (u: uPlot) => void; // over it
}

/** A plot in the box, as wide as that: dragging chooses a range, a double click the whole. It is made anew when one of `changes` does. */
export function useRangePlot(box: RefObject<HTMLDivElement>, { p, range, whole, dark, moment, onRange }: RangePlot, height: number,
  drawing: (theme: ReturnType<typeof themeNow>) => Drawing, changes: readonly unknown[]): void {
  const plot = useRef<uPlot | null>(null);
  const bins = p.page.bins;
  const callback = useRef(onRange);
  callback.current = onRange;
  const dragging = useRef(false);
  const [drags, setDrags] = useState(0);
  const current = useRef({ range, whole, moment });
  current.current = { range, whole, moment };

  useEffect(() => {
    if (!box.current) return;
    const theme = themeNow();
    const axis = { stroke: theme.muted, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line }, font: "12px system-ui, sans-serif" };
    const end = bins.start_ns + bins.count * bins.width_ns;
    const { series, data, vertical, points, draw } = drawing(theme);
    const u = new uPlot({
      width: box.current.clientWidth, height, legend: { show: false },
      scales: { x: { time: false, range: [bins.start_ns, end] }, y: { range: (_u, _min, max) => [0, (max || 1) * 1.05] } },
      series: [{ label: "Time", value: (_u, v) => (v === null ? "–" : duration(v)) }, ...series],
      axes: [
        { ...axis, size: 34, values: (_u, ticks) => ticks.map((t) => (t === 0 ? "0" : duration(t))), space: 80 },
        { ...axis, size: 70, ...vertical },
      ],
      cursor: {
        drag: { x: true, y: false, setScale: false }, points,
        bind: {
          mousedown: (_u, target, handle) => (e: MouseEvent) => {
            if (e.button !== 0 || e.target !== target) return null;
            dragging.current = true;
            return handle(e);
          },
          mouseup: (_u, _target, handle) => (e: MouseEvent) => {
            if (e.button !== 0) return null;
            handle(e);
            dragging.current = false;
            setDrags((n) => n + 1);
            return null;
          },
        },
      },
      hooks: {
        draw: [...(draw ? [draw] : []), (u) => drawMoment(u, current.current.moment, theme.rss)],
        setSelect: [(u) => {
          const chosen = draggedRange(u, bins);
          if (chosen) callback.current(chosen.from, chosen.to);
        }],
      },
    }, data, box.current);
    plot.current = u;
    u.over.addEventListener("dblclick", () => callback.current(0, 0));
    dragging.current = false;
    const show = () => !dragging.current && showRange(u, bins, current.current.range, current.current.whole);
    const watch = new ResizeObserver(() => {
      if (!box.current) return;
      u.setSize({ width: box.current.clientWidth, height });
      show();
    });
    watch.observe(box.current);
    show();
    return () => {
      watch.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [p, dark, bins, height, ...changes]);

  // What is being dragged over is left alone; behind each drag the range is shown again, also when that is the one from before.
  useEffect(() => {
    if (plot.current && !dragging.current) showRange(plot.current, bins, range, whole);
  }, [range.from, range.to, whole, bins, drags]);

  useEffect(() => {
    plot.current?.redraw(false);
  }, [moment]);
}
