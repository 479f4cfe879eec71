/** Page faults and pages from swap, slice by slice, below the time axis of the bytes. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { draggedRange, showRange } from "./brush";
import { themeNow } from "./colours";
import type { Process } from "./data";
import type { Range } from "./figures";
import { count, duration, exact } from "./units";

interface Props {
  p: Process;
  range: Range;
  whole: boolean;
  dark: boolean;
  onRange: (from: number, to: number) => void;
}

const SERIES = [
  { key: "minor", name: "Minor faults", about: "Pages that came into being when they were touched, without waiting for a disk" },
  { key: "major", name: "Major faults", about: "Pages that had to be read first, from a file or from swap" },
  { key: "swap", name: "Pages from swap", about: "Anonymous pages that had been swapped out and were read back" },
] as const;
type Key = (typeof SERIES)[number]["key"];
type Columns = Record<Key, number[]>;

/** What was recorded; a kind that was not has no numbers. */
function columns(p: Process): Columns {
  const slices = p.raw.page_timeline ?? [];
  const of = (key: "minor_faults" | "major_faults" | "swapped_in_pages") => (slices.length && slices[0][key] !== undefined ? slices.map((s) => s[key] ?? 0) : []);
  return { minor: of("minor_faults"), major: of("major_faults"), swap: of("swapped_in_pages") };
}

export function hasFaults(p: Process): boolean {
  return (p.raw.page_timeline ?? []).length === p.page.bins.count && p.page.bins.count > 0;
}

export function Faults({ p, range, whole, dark, onRange }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hidden, setHidden] = useState<Record<Key, boolean>>({ minor: false, major: false, swap: false });
  const bins = p.page.bins;
  const table = useMemo(() => columns(p), [p]);
  const there = useMemo(() => SERIES.filter((s) => table[s.key].length > 0), [table]);
  const callback = useRef(onRange);
  callback.current = onRange;
  const current = useRef({ range, whole });
  current.current = { range, whole };

  useEffect(() => {
    if (!box.current) return;
    const theme = themeNow();
    const colour: Record<Key, string> = { minor: theme.live, major: theme.rss, swap: theme.mark };
    const axis = { stroke: theme.muted, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line }, font: "12px system-ui, sans-serif" };
    const end = bins.start_ns + bins.count * bins.width_ns;
    const bars = uPlot.paths.bars!({ size: [1, Infinity], align: 1, gap: 0 });
    const x = Array.from({ length: bins.count }, (_v, b) => bins.start_ns + b * bins.width_ns);
    const series: uPlot.Series[] = [{ label: "Time" }];
    const shown = (key: Key) => !hidden[key] && table[key].some((v) => v > 0); // a line of zeros hides the axis
    for (const s of there)
      series.push(s.key === "swap"
        ? { label: s.name, stroke: colour.swap, width: 1.5, points: { show: false }, paths: uPlot.paths.stepped!({ align: 1 }), show: shown("swap") }
        : { label: s.name, stroke: colour[s.key], fill: `${colour[s.key]}${s.key === "minor" ? "66" : "cc"}`, width: 0, points: { show: false }, paths: bars, show: shown(s.key) });
    const u = new uPlot({
      width: box.current.clientWidth, height: 110, legend: { show: false },
      scales: { x: { time: false, range: [bins.start_ns, end] }, y: { range: (_u, _min, max) => [0, (max || 1) * 1.05] } },
      series,
      axes: [
        { ...axis, size: 34, values: (_u, ticks) => ticks.map((t) => (t === 0 ? "0" : duration(t))), space: 80 },
        { ...axis, size: 70, space: 24, values: (_u, ticks) => ticks.map((t) => count(t)), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1e3, n * 1e6]).sort((a, b) => a - b) },
      ],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      hooks: {
        setSelect: [(u) => {
          const chosen = draggedRange(u, bins);
          if (chosen) callback.current(chosen.from, chosen.to);
        }],
      },
    }, [x, ...there.map((s) => table[s.key])], box.current);
    plot.current = u;
    u.over.addEventListener("dblclick", () => callback.current(0, 0));
    const show = () => showRange(u, bins, current.current.range, current.current.whole);
    const watch = new ResizeObserver(() => {
      if (!box.current) return;
      u.setSize({ width: box.current.clientWidth, height: 110 });
      show();
    });
    watch.observe(box.current);
    show();
    return () => {
      watch.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [p, table, there, dark, hidden, bins]);

  useEffect(() => {
    if (plot.current) showRange(plot.current, bins, range, whole);
  }, [range.from, range.to, whole, bins]);

  return (
    <div>
      <div class="legend" id="page-faults">
        {there.map((s) => {
          const sum = table[s.key].slice(range.from, range.to).reduce((a, b) => a + b, 0);
          return <label key={s.key} title={s.about}>
            <input type="checkbox" checked={!hidden[s.key]} onChange={() => setHidden({ ...hidden, [s.key]: !hidden[s.key] })} />
            <i class={`swatch ${s.key}`} />{s.name}: <b data-figure={s.key} data-exact={sum} title={exact(sum)}>{count(sum)}</b>
          </label>;
        })}
        <span class="muted">per {duration(bins.width_ns)}</span>
      </div>
      <div ref={box} id="faults" class="plot" role="img" aria-label={`Page faults over time: ${there.map((s) => s.name.toLowerCase()).join(", ")}. Dragging over it chooses a range, as on the plot above.`} />
    </div>
  );
}
