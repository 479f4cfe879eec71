/** The map of the heap at one moment: each row of cells is an area of addresses. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cleared } from "./canvas";
import { themeNow } from "./colours";
import { Tip } from "./flame";
import { MAP_SITES, siteText, type HeapMap, type Moments } from "./moments";
import { bytes, duration, percent } from "./units";

const LEFT = 128;

function address(n: number): string {
  return `0x${n.toString(16)}`;
}

/** The arena that an address is in, by the heaps that the moment lists. */
function arenaOf(m: Moments, moment: number, at: number): string {
  const { arenas, arena_heap_bytes: step } = m.list[moment];
  if (!arenas || !step) return "";
  const found = arenas.find((a) => a[0] && Math.floor(a[0] / step) === Math.floor(at / step));
  return found ? `arena ${address(found[0])}` : arenas.some((a) => a[0]) && at < 2 ** 46 ? "main arena" : "";
}

interface Cell {
  index: number;
  x: number;
  y: number;
}

/** Totals of what is drawn, for the legend. */
function totals(map: HeapMap, moment: number): { live: number; pinned: number; empty: number } {
  const sum = { live: 0, pinned: 0, empty: 0 };
  const at = moment * map.cells;
  for (let c = 0; c < map.cells; c++) {
    if (map.live[at + c] || map.free[at + c]) {
      sum.live++;
      if (map.free[at + c] >= 50) sum.pinned++;
    } else if (map.since[c] <= moment) sum.empty++;
  }
  return sum;
}

export function HeapMapView({ m, moment, dark }: { m: Moments; moment: number; dark: boolean }) {
  const map = m.map!;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<Cell | null>(null);
  const left = width < 600 ? 0 : LEFT;
  const rowHeight = Math.max(5, Math.min(16, Math.floor(420 / Math.max(1, map.rows.length))));
  const height = map.rows.length * rowHeight;
  const cellWidth = Math.max(1, (width - left) / map.columns);
  const sum = useMemo(() => totals(map, moment), [map, moment]);

  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);

  useEffect(() => {
    const c = canvas.current;
    const g = c && width ? cleared(c, width, height) : null;
    if (!g) return;
    const theme = themeNow();
    const gapX = cellWidth > 5 && rowHeight > 5 ? 1 : 0;
    const h = rowHeight - (rowHeight > 5 ? 1 : 0);
    const at = moment * map.cells;
    for (let row = 0; row < map.rows.length; row++)
      for (let column = 0; column < map.columns; column++) {
        const cell = row * map.columns + column;
        const [live, free] = [map.live[at + cell], map.free[at + cell]];
        if (map.since[cell] > moment) continue;
        const [x, y, w] = [left + column * cellWidth, row * rowHeight, cellWidth - gapX];
        g.globalAlpha = 1;
        g.fillStyle = theme.line;
        g.fillRect(x, y, w, h);
        if (!live && !free) continue;
        // From the left: live, then free on the pages that live blocks keep.
        g.fillStyle = theme.live;
        g.globalAlpha = 0.35 + 0.65 * (live / 100);
        const filled = Math.max(live ? 1 : 0, (w * live) / 100);
        g.fillRect(x, y, filled, h);
        g.globalAlpha = 1;
        g.fillStyle = theme.rss;
        g.fillRect(x + filled, y, Math.min(w - filled, (w * free) / 100), h);
      }
    g.globalAlpha = 1;
    if (left) {
      g.font = "11px ui-monospace, monospace";
      g.textBaseline = "top";
      g.fillStyle = theme.muted;
      let last = -100;
      map.rows.forEach((start, row) => {
        const jump = row > 0 && start - map.rows[row - 1] > map.columns * map.cellBytes;
        if (row * rowHeight - last < (jump ? 11 : 44)) return;
        last = row * rowHeight;
        g.fillText(address(start), 0, last);
      });
    }
  }, [map, moment, width, height, dark, cellWidth, rowHeight, left]);

  const over = (e: MouseEvent) => {
    const rect = canvas.current!.getBoundingClientRect();
    const column = Math.floor((e.clientX - rect.left - left) / cellWidth);
    const row = Math.floor((e.clientY - rect.top) / rowHeight);
    const index = row * map.columns + column;
    const inside = column >= 0 && column < map.columns && row >= 0 && row < map.rows.length && map.since[index] <= moment;
    setHover(inside ? { index, x: e.clientX, y: e.clientY } : null);
  };
  const at = hover ? moment * map.cells + hover.index : 0;
  const start = hover ? map.rows[Math.floor(hover.index / map.columns)] + (hover.index % map.columns) * map.cellBytes : 0;
  const sites = hover ? Array.from({ length: MAP_SITES }, (_v, k) => map.sites[at * MAP_SITES + k]).filter((s) => s) : [];
  const used = sum.live + sum.empty;
  return (
    <div>
      <h4>Map of the heap <span class="muted">at {duration(m.list[moment].time_ns)}; a row is {bytes(map.cellBytes * map.columns)} of addresses, a cell {bytes(map.cellBytes)}</span></h4>
      <div class="legend" id="map-legend" data-cells={map.cells} data-used={sum.live} data-pinned={sum.pinned} data-empty={sum.empty}>
        <span><i class="swatch block live" />live</span>
        <span><i class="swatch block rss" />free, but on pages that live blocks keep; at least half of the cell in {percent(sum.pinned, used) || "none"} of them</span>
        <span><i class="swatch block empty" />free: {percent(sum.empty, used) || "none"} of the cells hold no live block</span>
      </div>
      <div ref={box}>
        <canvas ref={canvas} id="heap-map" style={{ width: `${width}px`, height: `${height}px` }} role="img" onMouseMove={over} onMouseLeave={() => setHover(null)}
          aria-label={`Map of the heap: ${used} cells of ${bytes(map.cellBytes)} were used so far; ${sum.live} hold live blocks now, ${sum.pinned} of them are half free or more, ${sum.empty} are empty`} />
      </div>
      {hover && <Tip x={hover.x} y={hover.y}>
        <div><code>{address(start)}</code> <span class="muted">and {bytes(map.cellBytes)} from there {arenaOf(m, moment, start) && `· ${arenaOf(m, moment, start)}`}</span></div>
        <div>{map.live[at] ? <><b>{map.live[at]} %</b> live, {map.free[at]} % free on pages with live blocks</> : map.free[at] ? "only chunks in the caches of threads" : "free: no live block"}</div>
        {sites.map((s) => <div key={s}>{siteText(m, s - 1)} <span class="muted">{m.site(s - 1)?.file?.split("/").pop()}{m.site(s - 1)?.line ? `:${m.site(s - 1)!.line}` : ""}</span></div>)}
      </Tip>}
    </div>
  );
}
