/** The table of call sites: sortable, filterable, each with its own course over time. */
import { Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Process } from "./data";
import { addFigures, addListed, liveSeries, metricOf, metricsOf, noFigures, type FigureList, type Figures, type Metric, type Range } from "./figures";
import { functionKey, GAP, GONE, isFolded, isInlined, isOwn, isWrapper, matcher, namesOf, OTHER, searchText, siteFrame, specialName, stackCount, stackOf } from "./frames";
import { Path, siteTitle } from "./names";
import { Bars } from "./shape";
import { bytes, byteSeconds, count, duration, exact, percent, plural } from "./units";
import { LIFETIMES } from "./data";
import type { TreeNode } from "./tree";

export interface SiteRow {
  key: string;
  groups: number[];
  frame: number; // below 0: see frames.ts
  folded: boolean; // not a call site by itself, or a call stack by itself
  stacks: number;
  figures: Figures;
  minBytes: number;
  maxBytes: number;
}

interface ColumnInfo {
  id: Metric | "endBlocks" | "average";
  title: string;
  about: string;
  show: (v: number) => string;
  value: (r: SiteRow) => number;
}

export const COLUMNS: ColumnInfo[] = [
  { id: "peak", title: "Peak", about: "Live at the moment when the process held most within the range", show: bytes, value: (r) => r.figures.peak },
  { id: "end", title: "End", about: "Live at the end of the range: leaked or still reachable", show: bytes, value: (r) => r.figures.end },
  { id: "growth", title: "Growth", about: "Live at the end of the range less live at its start", show: bytes, value: (r) => metricOf(r.figures, "growth") },
  { id: "allocated", title: "Allocated", about: "Bytes asked for in the range, whatever became of them", show: bytes, value: (r) => r.figures.allocated },
  { id: "calls", title: "Calls", about: "Allocations in the range", show: count, value: (r) => r.figures.calls },
  { id: "temporary", title: "Temporary", about: "Allocations released by their thread before its next allocation", show: count, value: (r) => r.figures.temporary },
  { id: "byteNs", title: "Byte-seconds", about: "Bytes times the time they were live", show: byteSeconds, value: (r) => r.figures.byteNs },
  { id: "average", title: "Mean size", about: "Allocated bytes by calls", show: bytes, value: (r) => (r.figures.calls ? r.figures.allocated / r.figures.calls : 0) },
];

/** Rows of the groups of the focus, or of all. */
function rowsOf(p: Process, figures: FigureList, stacks: boolean, focus: TreeNode | null): SiteRow[] {
  const found = new Map<number, SiteRow>();
  const groups = p.page.groups;
  const list = focus ? Array.from(focus.groups) : groups.tip.keys();
  for (const g of list) {
    if (p.firstRow[g] === p.firstRow[g + 1]) continue;
    const frame = siteFrame(p, g);
    const key = stacks ? g : frame;
    let row = found.get(key);
    if (!row) {
      const folded = frame === OTHER || frame === GONE || (stacks && isFolded(p, g));
      found.set(key, (row = { key: `${stacks ? "g" : "f"}${key}`, groups: [], frame, folded, stacks: 0, figures: noFigures(), minBytes: Infinity, maxBytes: 0 }));
    }
    row.groups.push(g);
    row.stacks += stackCount(p, g);
    addListed(row.figures, figures, g);
    if (groups.max_bytes[g] || groups.sizes[g].length) {
      row.minBytes = Math.min(row.minBytes, groups.min_bytes[g]);
      row.maxBytes = Math.max(row.maxBytes, groups.max_bytes[g]);
    }
  }
  return [...found.values()].filter((r) => r.figures.calls || r.figures.peak || r.figures.end || r.figures.start || r.figures.byteNs);
}

/** In the order of a column, of equal ones the larger peak, then calls, then as they stand. */
function sortRows(rows: SiteRow[], sort: string): SiteRow[] {
  const column = COLUMNS.find((c) => c.id === sort.replace(/^-/, "")) ?? COLUMNS[0];
  const sign = sort.startsWith("-") ? -1 : 1;
  const keyed = rows.map((r, i) => ({ r, i, v: sign * column.value(r) }));
  keyed.sort((a, b) => b.v - a.v || b.r.figures.peak - a.r.figures.peak || b.r.figures.calls - a.r.figures.calls || a.i - b.i);
  return keyed.map((k) => k.r);
}

/** How many call sites, or call stacks, rows stand for. */
export function countOf(p: Process, rows: SiteRow[], stacks: boolean): number {
  let sum = 0;
  for (const r of rows)
    if (r.frame !== GONE) sum += stacks ? r.stacks : r.frame === OTHER ? p.page.call_sites_together : 1;
  return sum;
}

interface Props {
  p: Process;
  focus: TreeNode | null; // only what passes there
  figures: FigureList;
  range: Range;
  whole: boolean;
  lane: number;
  by: Metric;
  stacks: boolean;
  filter: string;
  sort: string;
  open: string;
  onStacks: (v: boolean) => void;
  onFilter: (v: string) => void;
  onSort: (v: string) => void;
  onOpen: (v: string) => void;
  onFind: (text: string) => void; // in the flame graph
  onFunction: (key: string) => void; // callers and callees are asked for
}

function rowsOfLane(p: Process, groups: number[], lane: number): number[] {
  const rows: number[] = [];
  for (const g of groups)
    for (let k = p.firstRow[g]; k < p.firstRow[g + 1]; k++)
      if (lane < 0 || p.page.rows.lane[p.rowsOf[k]] === lane) rows.push(p.rowsOf[k]);
  return rows;
}

function Sparkline({ p, row, range, whole, lane, width = 96, height = 22 }: { p: Process; row: SiteRow; range: Range; whole: boolean; lane: number; width?: number; height?: number }) {
  const which = row.groups.reduce((hash, g) => (Math.imul(hash, 31) + g) | 0, row.groups.length);
  const x = (b: number) => (b / p.bins) * width;
  const { path, max } = useMemo(() => {
    const live = liveSeries(p, rowsOfLane(p, row.groups, lane));
    const most = live.reduce((a, v) => Math.max(a, v), 0);
    let line = `M0,${height}`;
    live.forEach((v, b) => (line += `L${x(b + 1).toFixed(1)},${(height - 1 - (most ? v / most : 0) * (height - 2)).toFixed(1)}`));
    return { path: line, max: most };
  }, [p, row.key, which, lane, width, height]);
  return (
    <svg class="spark" width={width} height={height} role="img" aria-label={`live over time, at most ${bytes(max)} at the end of a slice`}>
      <title>{`Live over the whole run; at most ${bytes(max)} at the end of a slice of time`}</title>
      {!whole && <rect class="range" x={x(range.from)} width={Math.max(1, x(range.to) - x(range.from))} y={0} height={height} />}
      <path d={`${path}L${width},${height}Z`} />
    </svg>
  );
}

function Detail({ p, row, by, figures, lane, range, whole, onFind, onFunction }: { p: Process; row: SiteRow; by: Metric; figures: FigureList; lane: number; range: Range; whole: boolean; onFind: (text: string) => void; onFunction: (key: string) => void }) {
  const [which, setWhich] = useState(0);
  const names = namesOf(p);
  const values = useMemo(() => metricsOf(figures, by), [figures, by]);
  const order = useMemo(() => [...row.groups].sort((a, b) => values[b] - values[a]), [row, values]);
  const group = order[Math.min(which, order.length - 1)];
  const sizes = new Float64Array(65);
  const lives = new Float64Array(LIFETIMES + 1);
  for (const g of row.groups) {
    const s = p.page.groups.sizes[g];
    for (let i = 0; i < s.length; i += 2) sizes[s[i]] += s[i + 1];
    const l = p.page.groups.lifetimes[g];
    for (let i = 0; i < l.length; i += 2) lives[l[i]] += l[i + 1];
  }
  const sizeBars = [...sizes].map((v, bits) => ({ label: bits ? bytes(2 ** (bits - 1)) : "0", title: bits ? `${exact(2 ** (bits - 1))} to ${exact(2 ** bits - 1)} bytes` : "0 bytes", value: v })).filter((b) => b.value);
  const lifeBars = [...lives].map((v, c) => ({
    label: c === LIFETIMES ? "still live" : c ? `≥ ${duration(p.minLifetime[c])}` : `< ${duration(p.minLifetime[1])}`,
    title: c === LIFETIMES ? "live at the end" : `lived at least ${duration(p.minLifetime[c])}`, value: v,
  })).filter((b) => b.value);
  const stack = stackOf(p, group);
  return (
    <div class="detail">
      <div class="stack">
        {order.length > 1 && <div class="stack-picker">
          <button class="quiet" disabled={which === 0} onClick={() => setWhich(which - 1)} aria-label="previous stack">◀</button>
          <span>Stack {which + 1} of {exact(order.length)}, {percent(values[group], metricOf(row.figures, by)) || "0 %"} of this row</span>
          <button class="quiet" disabled={which === order.length - 1} onClick={() => setWhich(which + 1)} aria-label="next stack">▶</button>
        </div>}
        {row.frame >= 0 && <p class="ways"><button class="quiet link" onClick={() => onFind(names.fn(row.frame))}>Find {names.fn(row.frame)} in the flame graph</button>
          <button class="quiet link" onClick={() => onFunction(functionKey(p, row.frame))}>Its callers and callees</button></p>}
        {row.frame === OTHER && <p class="muted">These call sites are small, and there was no room on the page for each of them.</p>}
        {isFolded(p, group) && row.frame !== GONE && <p class="muted">{plural(stackCount(p, group), "call stack")} of this call site, small ones, with the callers that they have in common.</p>}
        <ol>
          {stack.map((f, i) => f < 0 ? <li key={i} class="gap muted">{f === GAP ? "⋯ frames left out" : specialName(f)}</li> : <li key={i} class={isWrapper(p, f) ? "wrapper" : isOwn(p, f) ? "own" : ""}>
            <span class="fn">{names.fn(f)}{isInlined(p, f) && <span class="muted"> [inlined]</span>}</span>{" "}
            <span class="muted">{[names.place(f), names.module(f)].filter(Boolean).join(" · ")}</span>
            {i > 0 && <button class="quiet link way" title="Callers and callees of this function" onClick={() => onFunction(functionKey(p, f))}>⇅</button>}
            <Source p={p} frame={f} open={f === row.frame} />
          </li>)}
          {stack.length === 0 && <li class="muted">no frames</li>}
        </ol>
      </div>
      <div class="detail-side">
        <h4>Live over time</h4>
        <Sparkline p={p} row={row} range={range} whole={whole} lane={lane} width={300} height={60} />
        <p class="muted small">In the range: peak {plural(row.figures.peakBlocks, "block")}, end {plural(row.figures.endBlocks, "block")}.</p>
        {sizeBars.length > 0 && <><h4>Sizes, by calls <span class="muted">whole run; {exact(row.minBytes)} to {exact(row.maxBytes)} bytes</span></h4><Bars bars={sizeBars} show={count} /></>}
        {lifeBars.length > 0 && <><h4>Lifetimes, by blocks <span class="muted">whole run</span></h4><Bars bars={lifeBars} show={count} /></>}
      </div>
    </div>
  );
}

/** The lines around a frame, where the page has them. */
function Source({ p, frame, open }: { p: Process; frame: number; open: boolean }) {
  const item = p.page.sources?.items.find((s) => s.frame === frame);
  if (!item) return null;
  return (
    <details class="source" open={open}>
      <summary>source</summary>
      <pre>{item.lines.map((text, i) => <span key={i} class={item.first + i === item.line ? "line at" : "line"}><span class="muted">{String(item.first + i).padStart(5)} </span>{text}{"\n"}</span>)}</pre>
    </details>
  );
}

const FIRST = 25;

export function Sites(props: Props) {
  const { p, figures, stacks, filter, by, open } = props;
  const [shown, setShown] = useState(FIRST);
  const names = useMemo(() => namesOf(p), [p]);
  const rows = useMemo(() => rowsOf(p, figures, stacks, props.focus), [p, figures, stacks, props.focus]);
  const sort = props.sort || by;
  const sorting = [{ id: sort.replace(/^-/, ""), desc: !sort.startsWith("-") }];
  const test = useMemo(() => matcher(filter), [filter]);
  /** A row passes when any frame of any of its stacks does. */
  const passes = useMemo(() => {
    if (!test) return () => true;
    const known = new Map<number, boolean>();
    return (row: SiteRow) => row.groups.some((g) => stackOf(p, g).some((f) => {
      let yes = known.get(f);
      if (yes === undefined) known.set(f, (yes = test(searchText(names, f))));
      return yes;
    }));
  }, [test, p, names]);
  const list = useMemo(() => sortRows(rows.filter(passes), sort), [rows, passes, sort]);
  const sum = useMemo(() => {
    const s = noFigures();
    for (const r of list) addFigures(s, r.figures);
    return s;
  }, [list]);
  const all = useMemo(() => {
    const s = noFigures();
    for (const r of rows) addFigures(s, r.figures);
    return s;
  }, [rows]);
  const chosen = COLUMNS.find((c) => c.id === sorting[0].id) ?? COLUMNS[0];
  const ofAll = COLUMNS.map((c) => c.value({ figures: all } as SiteRow));
  const chosenOfAll = ofAll[COLUMNS.indexOf(chosen)];

  return (
    <div>
      <div class="controls">
        <input type="search" id="table-filter" placeholder="Filter by function, file or library; /regex/" value={filter} aria-label="Filter the table"
          onInput={(e) => props.onFilter(e.currentTarget.value)} />
        <div class="segmented" role="group" aria-label="Rows of the table">
          <button aria-pressed={!stacks} onClick={() => props.onStacks(false)} title="Stacks that end in the same function and line are one row">Call sites</button>
          <button aria-pressed={stacks} onClick={() => props.onStacks(true)} id="table-stacks" title="Each call stack is a row">Stacks</button>
        </div>
        <span class="muted" id="table-count" data-exact={countOf(p, list, stacks)}>{test && `${exact(countOf(p, list, stacks))} of `}{plural(countOf(p, rows, stacks), stacks ? "stack" : "call site")}</span>
      </div>
      <div class="table-box">
        <table id="sites">
          <thead>
            <tr>
              <th class="name" scope="col">Call site</th>
              <th scope="col" class="live">Live over time</th>
              <th scope="col" class="number share" title={`Share of the column by which the table is ordered, ${props.focus ? "of the focus" : "of all"}`}>{props.focus ? "% of focus" : "%"}</th>
              {COLUMNS.map((c) => {
                const on = sorting[0].id === c.id;
                return (
                  <th key={c.id} scope="col" class={`number${on ? " by" : ""}`} data-column={c.id} aria-sort={on ? (sorting[0].desc ? "descending" : "ascending") : "none"}>
                    <button class="quiet" title={c.about} data-by={c.id} onClick={() => props.onSort(on && sorting[0].desc ? `-${c.id}` : c.id)}>
                      {c.title}<span class="arrow">{on ? (sorting[0].desc ? "▼" : "▲") : ""}</span>
                    </button>
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            <tr class="sum">
              <td class="name">{test ? "Of those that pass the filter" : "All"}</td>
              <td class="live" />
              <td class="number share">{percent(chosen.value({ figures: sum } as SiteRow), chosenOfAll)}</td>
              {COLUMNS.map((c) => {
                const v = c.value({ figures: sum } as SiteRow);
                return <td key={c.id} class={`number${chosen === c ? " by" : ""}`} data-column={c.id} data-exact={Math.round(v)} title={exact(v)}>{c.show(v)}</td>;
              })}
            </tr>
            {list.slice(0, shown).map((r) => <Fragment key={r.key}>
              <tr data-site={r.key} data-folded={r.folded || undefined} class={open === r.key ? "open" : ""}>
                <td class="name">
                  <button class="quiet site" aria-expanded={open === r.key} onClick={() => props.onOpen(open === r.key ? "" : r.key)}>
                    <span class="twist">{open === r.key ? "▾" : "▸"}</span>
                    <span><span class={r.frame >= 0 && isOwn(p, r.frame) ? "fn own" : "fn"}>{siteTitle(p, r.frame)}</span>
                      {r.frame >= 0 && <Path place={names.place(r.frame)} module={names.module(r.frame)}>{stacks && !r.folded ? caller(p, r.groups[0]) : r.stacks > 1 ? ` · ${plural(r.stacks, "stack")}` : ""}</Path>}</span>
                  </button>
                </td>
                <td class="live"><Sparkline p={p} row={r} range={props.range} whole={props.whole} lane={props.lane} /></td>
                <td class="number share">{chosen.id === "average" ? "" : percent(chosen.value(r), chosenOfAll)}</td>
                {COLUMNS.map((c, k) => {
                  const v = c.value(r);
                  const share = c.id === "average" ? 0 : v / (ofAll[k] || 1);
                  return (
                    <td key={c.id} class={`number${sorting[0].id === c.id ? " by" : ""}`} data-column={c.id} data-exact={Math.round(v)}
                      title={`${exact(v)}${c.id === "average" ? "" : `, ${percent(v, ofAll[k])} of ${props.focus ? "the focus" : "all"}`}`}
                      style={sorting[0].id === c.id && share > 0 ? { backgroundSize: `${Math.min(100, share * 100)}% 100%` } : {}}>
                      {v ? c.show(v) : <span class="muted">·</span>}
                    </td>
                  );
                })}
              </tr>
              {open === r.key && <tr class="detail-row"><td colSpan={COLUMNS.length + 3}><Detail key={r.key} p={p} row={r} by={by} figures={figures} lane={props.lane} range={props.range} whole={props.whole} onFind={props.onFind} onFunction={props.onFunction} /></td></tr>}
            </Fragment>)}
          </tbody>
        </table>
      </div>
      {list.length === 0 && <p class="muted">{rows.length ? "No call site passes the filter." : "Nothing was allocated or live here."}</p>}
      {list.length > shown && <p><button onClick={() => setShown(shown + 50)}>Show 50 more of {exact(list.length - shown)}</button></p>}
    </div>
  );
}

/** " ← caller" of the call site of a stack. */
function caller(p: Process, group: number): string {
  const stack = stackOf(p, group);
  const at = stack.indexOf(siteFrame(p, group));
  return at >= 0 && at + 1 < stack.length ? ` ← ${namesOf(p).fn(stack[at + 1])}` : "";
}
