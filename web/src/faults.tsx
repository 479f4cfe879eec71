/** Page faults and pages from swap, slice by slice, below the time axis of the bytes. */
import { useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useRangePlot, type RangePlot } from "./brush";
import { joinSlices, type Process } from "./data";
import { count, duration, exact } from "./units";

const SERIES = [
  { key: "minor", name: "Minor faults", about: "Pages that came into being when they were touched, without waiting for a disk" },
  { key: "major", name: "Major faults", about: "Pages that had to be read first, from a file or from swap" },
  { key: "swap", name: "Pages from swap", about: "Anonymous pages that had been swapped out and were read back" },
] as const;
type Key = (typeof SERIES)[number]["key"];
type Columns = Record<Key, number[]>;

/** What was recorded; a kind that was not has no numbers. */
function columns(p: Process): Columns {
  const slices = joinSlices(p.raw.page_timeline ?? [], p.page.bins.count);
  const of = (key: "minor_faults" | "major_faults" | "swapped_in_pages") => (slices.length && slices[0][key] !== undefined ? slices.map((s) => s[key] ?? 0) : []);
  return { minor: of("minor_faults"), major: of("major_faults"), swap: of("swapped_in_pages") };
}

export function hasFaults(p: Process): boolean {
  return joinSlices(p.raw.page_timeline ?? [], p.page.bins.count).length > 0;
}

export function Faults(props: RangePlot) {
  const { p, range } = props;
  const box = useRef<HTMLDivElement>(null);
  const [hidden, setHidden] = useState<Record<Key, boolean>>({ minor: false, major: false, swap: false });
  const bins = p.page.bins;
  const table = useMemo(() => columns(p), [p]);
  const there = useMemo(() => SERIES.filter((s) => table[s.key].length > 0), [table]);

  useRangePlot(box, props, 110, (theme) => {
    const colour: Record<Key, string> = { minor: theme.live, major: theme.rss, swap: theme.mark };
    const bars = uPlot.paths.bars!({ size: [1, Infinity], align: 1, gap: 0 });
    const x = Array.from({ length: bins.count }, (_v, b) => bins.start_ns + b * bins.width_ns);
    const shown = (key: Key) => !hidden[key] && table[key].some((v) => v > 0); // a line of zeros hides the axis
    return {
      series: there.map((s): uPlot.Series => s.key === "swap"
        ? { label: s.name, stroke: colour.swap, width: 1.5, points: { show: false }, paths: uPlot.paths.stepped!({ align: 1 }), show: shown("swap") }
        : { label: s.name, stroke: colour[s.key], fill: `${colour[s.key]}${s.key === "minor" ? "66" : "cc"}`, width: 0, points: { show: false }, paths: bars, show: shown(s.key) }),
      data: [x, ...there.map((s) => table[s.key])],
      vertical: { space: 24, values: (_u, ticks) => ticks.map((t) => count(t)), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1e3, n * 1e6]).sort((a, b) => a - b) },
      points: { show: false },
    };
  }, [table, there, hidden]);

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
