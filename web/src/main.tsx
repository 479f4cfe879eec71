/** The page, top to bottom: how much, when, who, why is more resident, what the blocks are like. */
import { render, type ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { HeapPage, type HeapDocument } from "./heap";
import { HeapDifferencePage, type HeapDifference } from "./heapdiff";
import { ComparePage, type CompareDocument } from "./compare";
import { hasBlock, loadProcess, loadSummary, unpack, type Listed, type Process, type Summary } from "./data";
import { Faults, hasFaults } from "./faults";
import { groupFigures, METRICS, metricsOf, peakBin, rowFigures, totalFigures, type FigureList, type Metric, type Range } from "./figures";
import { DiffPage, type DiffDocument } from "./diff";
import { FleetPage, type FleetDocument } from "./fleet";
import { FleetDiffPage, type FleetDiffDocument } from "./fleetdiff";
import { Flame, nodeLabel } from "./flame";
import { loadMoments, type Moments } from "./moments";
import { chosenMoment, Mapped, Why } from "./resident";
import { Calls, laneName, Lifetimes, Reallocs, Sizes, SizesOverTime, Threads } from "./shape";
import { Section, Title, Toggle, useColours, useReady } from "./shell";
import { Sandwich } from "./sandwich";
import { fromHash, START, toHash, type View } from "./state";
import { Stream } from "./stream";
import { Sites } from "./table";
import { TunePage, type TuneDocument } from "./tune";
import { Timeline } from "./timeline";
import { buildTree, findPath } from "./tree";
import { bytes, byteSeconds, count, duration, exact, percent, plural } from "./units";

const METRIC: Record<Metric, { name: string; what: string; about: string; show: (v: number) => string }> = {
  peak: { name: "Peak", what: "bytes live at the peak", about: "Who held the memory when most was live", show: bytes },
  end: { name: "End", what: "bytes live at the end", about: "What was not released: leaked, or still reachable", show: bytes },
  growth: { name: "Growth", what: "growth", about: "What changed: live at the end of the range less live at its start", show: bytes },
  allocated: { name: "Allocated", what: "bytes allocated", about: "Bytes asked for, whatever became of them", show: bytes },
  temporary: { name: "Temporary", what: "temporary allocations", about: "Released by their thread before its next allocation: allocations for nothing", show: count },
  calls: { name: "Calls", what: "allocations", about: "How often", show: count },
  byteNs: { name: "Byte-seconds", what: "byte-seconds", about: "Bytes times the time that they were live: what memory cost", show: byteSeconds },
};

function useView(): [View, (change: Partial<View>) => void] {
  const [view, setView] = useState<View>(() => fromHash(location.hash));
  const change = useCallback((c: Partial<View>) => setView((old) => ({ ...old, ...c })), []);
  useEffect(() => {
    const hash = toHash(view);
    if (hash !== location.hash.replace(/^#/, "")) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }, [view]);
  useEffect(() => {
    const moved = () => setView(fromHash(location.hash));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return [view, change];
}

function Card({ id, title, value, exactly, children }: { id: string; title: string; value: string; exactly: number; children?: ComponentChildren }) {
  return (
    <div class="figure" title={`${exact(exactly)}`}>
      <div class="muted">{title}</div>
      <div class="big" id={id} data-exact={exactly}>{value}</div>
      <div class="muted small">{children}</div>
    </div>
  );
}

function HowMuch({ p, range, whole, rows }: { p: Process; range: Range; whole: boolean; rows: FigureList }) {
  const bins = p.page.bins;
  const total = useMemo(() => totalFigures(rows), [rows]);
  const at = peakBin(p, range);
  const last = range.to - 1;
  const span = (range.to - range.from) * bins.width_ns;
  const raw = p.raw;
  return (
    <div class="figures">
      <Card id="peak" title="Peak of live bytes" value={bytes(bins.max_bytes[at])} exactly={bins.max_bytes[at]}>
        {plural(bins.max_blocks[at], "block")}, {duration(bins.max_time_ns[at])} after the start
      </Card>
      <Card id="end" title={whole ? "Live at the end" : "Live at the end of the range"} value={bytes(bins.live_bytes[last])} exactly={bins.live_bytes[last]}>
        {plural(bins.live_blocks[last], "block")}{!whole && total.end !== total.start && `, ${total.end > total.start ? "+" : ""}${bytes(total.end - total.start)}`}
      </Card>
      <Card id="allocated" title="Allocated" value={bytes(total.allocated)} exactly={total.allocated}>
        {total.calls > 0 && `${bytes(total.allocated / total.calls)} on average`}
      </Card>
      <Card id="calls" title="Allocations" value={count(total.calls)} exactly={total.calls}>
        {span > 0 && `${count(Math.round((total.calls / Math.max(1, whole ? raw.duration_ns : span)) * 1e9))} a second`}
      </Card>
      <Card id="temporary" title="Temporary" value={percent(total.temporary, total.calls) || "none"} exactly={total.temporary}>
        {plural(total.temporary, "allocation")} released at once
      </Card>
      {raw.peak_rss_bytes !== null && <Card id="rss" title="Most resident" value={bytes(raw.peak_rss_bytes)} exactly={raw.peak_rss_bytes}>
        {raw.peak_rss_time_ns !== null && `${duration(raw.peak_rss_time_ns)} after the start`}{!whole && ", of the whole run"}
      </Card>}
    </div>
  );
}

function Processes({ summary, block, onProcess }: { summary: Summary; block: number; onProcess: (block: number) => void }) {
  const [all, setAll] = useState(false);
  const list = useMemo(() => [...summary.processes].sort((a, b) => b.peak_live_bytes - a.peak_live_bytes), [summary]);
  if (list.length < 2) return null;
  const most = Math.max(...list.map((l) => l.peak_live_bytes), 1);
  return (
    <details class="processes" open={list.length <= 12}>
      <summary>{plural(list.length + summary.unlisted_processes, "process", "processes")} in this recording</summary>
      <div class="table-box">
        <table class="plain" id="processes">
          <thead><tr><th scope="col">Process</th><th class="number" scope="col">Peak</th><th class="number" scope="col">End</th><th class="number" scope="col">Allocated</th><th class="number" scope="col">Events</th><th class="number" scope="col">Began</th><th class="number" scope="col">Ran</th></tr></thead>
          <tbody>{list.slice(0, all ? list.length : 12).map((l, i) => <tr key={i} class={l.block === block ? "chosen" : ""}>
            <td>{l.block === undefined ? <span title="Only listed: see what was folded, below">{l.command || l.exe} <span class="muted">({l.pid})</span></span>
              : <button class="quiet link" data-block={l.block} data-pid={l.pid} title={l.command} aria-current={l.block === block ? "true" : undefined} onClick={() => onProcess(l.block!)}>{l.command || l.exe} <span class="muted">({l.pid})</span></button>}</td>
            <td class="number by" title={exact(l.peak_live_bytes)} style={{ backgroundSize: `${(100 * l.peak_live_bytes) / most}% 100%` }}>{bytes(l.peak_live_bytes)}</td>
            <td class="number" title={exact(l.end_live_bytes)}>{bytes(l.end_live_bytes)}</td>
            <td class="number" title={exact(l.requested_bytes)}>{bytes(l.requested_bytes)}</td>
            <td class="number" title={exact(l.events)}>{count(l.events)}</td>
            <td class="number">{duration(l.start_ns)}</td>
            <td class="number">{duration(l.duration_ns)}</td>
          </tr>)}</tbody>
        </table>
      </div>
      {!all && list.length > 12 && <p><button onClick={() => setAll(true)}>Show all {exact(list.length)}</button></p>}
    </details>
  );
}

function Warnings({ list }: { list: string[] }) {
  if (!list.length) return null;
  return <div class="warnings" role="note"><b>Know before you believe the rest</b><ul>{list.map((w, i) => <li key={i}>{w}</li>)}</ul></div>;
}

/** What is not on the page one by one. */
function folds(summary: Summary, p: Process): string[] {
  const out: string[] = [];
  const { page } = p;
  out.push(`The run is shown in ${page.bins.count} slices of ${duration(page.bins.width_ns)}; ranges begin and end at their borders. Within a slice, the highest moment and the end are exact.`);
  if (page.sites_folded)
    out.push(`${exact(page.sites_folded)} of ${exact(page.sites_total)} call stacks are not here frame by frame: of the tree of callers, the ${exact(page.nodes.frame.length)} frames with the largest share of any figure are kept; behind "⋯ frames left out" comes the call site. The figures of every frame that is shown, and of every call site, are exact.`);
  if (page.call_sites_together)
    out.push(`${exact(page.call_sites_together)} of ${exact(page.call_sites)} call sites, the smallest by any figure, are one row: "smaller call sites". Totals hold them.`);
  if (page.sources && !page.sources.items.length) out.push(`No source of this program could be read below ${page.sources.root}.`);
  const others = page.lanes.find((l) => l.tids.length > 1);
  if (others) out.push(`${exact(others.tids.length)} threads with the fewest calls are shown as one.`);
  if (summary.undetailed_processes)
    out.push(`${exact(summary.undetailed_processes)} processes with the fewest calls are listed without details; 'mallow report -p PID' shows one.`);
  if (summary.unlisted_processes)
    out.push(`${exact(summary.unlisted_processes)} processes are not listed: ${count(summary.unlisted_events)} events, ${bytes(summary.unlisted_requested_bytes)} allocated by ${plural(summary.unlisted_allocations, "call")}.`);
  if (page.splits_total > page.splits.length) out.push(`Of ${exact(page.splits_total)} splits of the resident size, ${page.splits.length} at equal distances are here.`);
  return out;
}

function Details({ summary, p, moments, view, change, dark }: { summary: Summary; p: Process; moments: Moments | null; view: View; change: (c: Partial<View>) => void; dark: boolean }) {
  const bins = p.page.bins.count;
  const from = Math.max(0, Math.min(bins - 1, view.from));
  const to = view.to <= from || view.to > bins ? bins : view.to;
  const range = useMemo<Range>(() => ({ from, to }), [from, to]);
  const whole = from === 0 && to === bins;
  const lane = view.lane < p.page.lanes.length ? view.lane : -1;
  const rows = useMemo(() => rowFigures(p, range), [p, range]);
  const figures = useMemo(() => groupFigures(p, rows, lane), [p, rows, lane]);
  const metric = METRIC[view.by];
  const values = useMemo(() => metricsOf(figures, view.by), [figures, view.by]);
  const options = useMemo(
    () => ({ reversed: view.reversed, hideLibraries: view.hideLibraries, hideWrappers: !view.showWrappers, byLine: view.byLine }),
    [view.reversed, view.hideLibraries, view.showWrappers, view.byLine],
  );
  const tree = useMemo(() => buildTree(p, values, options), [p, values, options]);
  const { root } = tree;
  const focus = useMemo(() => findPath(tree, view.focus), [tree, view.focus]);
  const focused = focus === root ? null : focus;
  const width = p.page.bins.width_ns;
  const fromNs = p.page.bins.start_ns + from * width;
  const toNs = Math.min(p.page.bins.start_ns + to * width, Math.max(p.raw.duration_ns, fromNs));
  const chosen = useMemo(() => chosenMoment(p, moments, range, whole, view.at), [p, moments, range, whole, view.at]);
  const momentNs = chosen.index < 0 ? undefined : moments!.list[chosen.index].time_ns;
  const setAt = useCallback((at: number) => change({ at }), [change]);
  const setRange = useCallback((a: number, b: number) => change(a === 0 && (b === 0 || b === bins) ? { from: 0, to: 0 } : { from: a, to: b }), [change, bins]);
  const setTree = (c: Partial<View>) => change({ ...c, focus: "" });
  const lanes = p.page.lanes.map((_l, i) => i).filter((i) => !p.page.lanes[i].inherited || p.page.rows.lane.includes(i));
  // Parts that do not depend on what is clicked elsewhere: the same element is not compared again.
  const timeline = useMemo(() => <Timeline p={p} range={range} whole={whole} dark={dark} moment={momentNs} onRange={setRange} />, [p, range, whole, dark, momentNs, setRange]);
  const stream = useMemo(() => <Stream p={p} range={range} lane={lane} dark={dark} />, [p, range, lane, dark]);
  const why = useMemo(() => <Why p={p} m={moments} among={chosen.among} index={chosen.index} dark={dark} onAt={setAt} />, [p, moments, chosen, dark, setAt]);
  const shape = useMemo(() => (
    <div class="grid">
      <Sizes p={p} range={range} />
      <Lifetimes p={p} range={range} whole={whole} />
      <SizesOverTime p={p} range={range} whole={whole} dark={dark} />
      <Threads p={p} rows={rows} range={range} onLane={(l) => change({ lane: l, focus: "" })} />
      <Reallocs p={p} />
      <Calls p={p} />
    </div>
  ), [p, range, whole, dark, rows, change]);
  const folded = useMemo(() => <ul id="folded">{folds(summary, p).map((t, i) => <li key={i}>{t}</li>)}</ul>, [summary, p]);
  const shrunk = view.by === "growth" ? -values.reduce((s, v) => s + Math.min(0, v), 0) : 0;

  return (
    <>
      <Warnings list={[...summary.warnings, ...p.raw.warnings]} />
      <Section id="how-much" title="How much?">
        <HowMuch p={p} range={range} whole={whole} rows={rows} />
      </Section>
      <Section id="when" title="When?" question="drag over the plot to look at a part of the run; everything below follows">
        <div class={whole ? "range-line" : "range-line chosen"} id="range" data-from-ns={fromNs} data-to-ns={fromNs + (to - from) * width}>
          {whole ? <>The whole run, {duration(p.raw.duration_ns)}</>
            : <>{duration(fromNs)} to {duration(toNs)}, {duration(toNs - fromNs)} <button onClick={() => setRange(0, 0)} id="range-clear">Show the whole run</button></>}
        </div>
        {timeline}
        {hasFaults(p) && <Faults p={p} range={range} whole={whole} dark={dark} onRange={setRange} />}
        {stream}
      </Section>
      <Section id="who" title="Who?" question={metric.about}>
        <div class="controls">
          <div class="segmented" role="group" aria-label="Figure">
            {METRICS.map((m) => <button key={m} id={`by-${m}`} aria-pressed={view.by === m} title={METRIC[m].about} onClick={() => setTree({ by: m, sort: "" })}>{METRIC[m].name}</button>)}
          </div>
          {lanes.length > 1 && <select id="lane" aria-label="Thread" value={lane} onChange={(e) => setTree({ lane: Number(e.currentTarget.value) })}>
            <option value={-1}>All threads</option>
            {lanes.map((l) => <option key={l} value={l}>{laneName(p, l)}</option>)}
          </select>}
          <input type="search" id="search" placeholder="Search frames; /regex/" aria-label="Search in the flame graph" value={view.search} onInput={(e) => change({ search: e.currentTarget.value })} />
        </div>
        <div class="controls">
          <div class="segmented" role="group" aria-label="Direction">
            <button aria-pressed={view.icicle} onClick={() => change({ icicle: true })} title="The outermost frame on top">Icicle</button>
            <button aria-pressed={!view.icicle} onClick={() => change({ icicle: false })} title="The outermost frame at the bottom" id="flame-up">Flame</button>
          </div>
          <Toggle id="reversed" on={view.reversed} label="Reversed" title="Begin at the functions that allocate, and branch to their callers" onChange={(on) => setTree({ reversed: on })} />
          <Toggle id="hide-libraries" on={view.hideLibraries} label="Hide libraries" title="Only frames of the program itself" onChange={(on) => setTree({ hideLibraries: on })} />
          <Toggle id="wrappers" on={view.showWrappers} label="Show wrappers" title="Show as frames what stands between the call site and malloc: wrappers such as xmalloc and operator new, the library of the language, libc" onChange={(on) => setTree({ showWrappers: on })} />
          <Toggle id="by-line" on={view.byLine} label="Source lines" title="The same function at two lines is two frames" onChange={(on) => setTree({ byLine: on })} />
          <span class="muted small"><i class="swatch own" />the program itself <i class="swatch lib" />libraries, a colour each</span>
        </div>
        <p class="total">{metric.show(root.value)} <span class="muted" id="flame-total" data-exact={Math.round(root.value)}>{metric.what}{lane >= 0 && ` of ${laneName(p, lane)}`}{!whole && " in the range"}{shrunk > 0 && `; ${bytes(shrunk)} were released elsewhere`}</span></p>
        <Flame p={p} tree={tree} focus={view.focus} search={view.search} icicle={view.icicle} byLine={view.byLine} what={metric.what} human={metric.show} dark={dark} onFocus={(path) => change({ focus: path, site: "" })} onFunction={(fn) => change({ fn })} />
        {view.fn && <Sandwich p={p} values={values} whole={root.value} options={options} fn={view.fn} what={metric.what} human={metric.show} dark={dark} onFunction={(fn) => change({ fn })} />}
        <h3>Call sites</h3>
        {focused && <p class="in-focus" id="in-focus">Only what passes through <b>{nodeLabel(p, focused, false)}</b>: {metric.show(focused.value)}, {percent(focused.value, root.value)} of {metric.what}. Shares are of that. <button onClick={() => change({ focus: "" })} id="focus-clear">Show everything</button></p>}
        <Sites p={p} focus={focused} figures={figures} range={range} whole={whole} lane={lane} by={view.by} stacks={view.stacks} filter={view.filter} sort={view.sort} open={view.site}
          onStacks={(v) => change({ stacks: v, site: "" })} onFilter={(v) => change({ filter: v })} onSort={(v) => change({ sort: v })} onOpen={(v) => change({ site: v })}
          onFind={(text) => {
            change({ search: text, focus: "" });
            document.getElementById("search")?.scrollIntoView({ block: "center" });
          }}
          onFunction={(fn) => {
            change({ fn });
            requestAnimationFrame(() => document.getElementById("sandwich")?.scrollIntoView({ block: "start" }));
          }} />
      </Section>
      <Section id="why" title="Why is more resident than live?" question="at any moment: move the slider, or choose a range above">
        <div class="card">{why}<Mapped p={p} /></div>
      </Section>
      <Section id="shape" title="What are the blocks like?">
        {shape}
      </Section>
      <footer class="muted small">
        <b>What was folded.</b>
        {folded}
        {summary.symbol_problems.length > 0 && <details><summary>{plural(summary.symbol_problems.length, "module")} without all of their names</summary><ul>{summary.symbol_problems.map((t, i) => <li key={i}>{t}</li>)}</ul></details>}
      </footer>
    </>
  );
}

function Page({ summary }: { summary: Summary }) {
  const [view, change] = useView();
  const colours = useColours();
  const { dark } = colours;
  const detailed = useMemo(() => summary.processes.filter((l) => l.block !== undefined), [summary]);
  const largest = useMemo(() => detailed.reduce<Listed | null>((best, l) => (!best || l.peak_live_bytes > best.peak_live_bytes ? l : best), null), [detailed]);
  const block = detailed.some((l) => l.block === view.process) ? view.process : (largest?.block ?? -1);
  const [loaded, setLoaded] = useState<{ block: number; p: Process; moments: Moments | null } | null>(null);
  const [failure, setFailure] = useState("");
  useEffect(() => {
    let stale = false;
    if (block >= 0) Promise.all([loadProcess(block), loadMoments(block)]).then(([p, moments]) => !stale && setLoaded({ block, p, moments }), (e) => setFailure(String(e)));
    return () => { stale = true; };
  }, [block]);
  const listed = detailed.find((l) => l.block === block);
  const p = loaded?.block === block ? loaded.p : null;
  useReady(p !== null);
  const end = p && (p.raw.end === "exit" ? `exit status ${p.raw.exit_status ?? 0}` : p.raw.end === "killed" ? `killed by signal ${p.raw.signal ?? "?"}` : p.raw.end === "exec" ? "became another program" : "end not seen");
  return (
    <main>
      <header>
        <Title text={listed?.command || listed?.exe || "nothing recorded"} full={p?.raw.command.join(" ")} colours={colours} />
        <p class="muted">
          {listed && <>pid {listed.pid}, {p && `${plural(p.raw.threads, "thread")}, `}ran {duration(listed.duration_ns)}{p && `, ${end}; ${p.raw.allocator ?? "allocator unknown"}`} · </>}
          <span id="events" data-exact={summary.events}>{plural(summary.events, "call")}</span> in {summary.file.split("/").pop()} ({bytes(summary.file_bytes)})
          {summary.start_realtime_ns > 0 && <> · {new Date(summary.start_realtime_ns / 1e6).toLocaleString()}</>}{summary.host && <> on {summary.host}</>}
        </p>
        {summary.filter && <p class="warnings">Filtered: {Object.entries(summary.filter).map(([k, v]) => `${k} ${v}`).join(", ")}</p>}
        <Processes summary={summary} block={block} onProcess={(b) => change({ ...START, process: b })} />
      </header>
      {failure && <p class="warnings">This page could not be read: {failure}</p>}
      {p ? <Details key={block} summary={summary} p={p} moments={loaded!.moments} view={view} change={change} dark={dark} />
        : block >= 0 ? !failure && <p class="muted">Unpacking…</p> : <Warnings list={["No process is in this recording, or none passes the filter.", ...summary.warnings]} />}
      <footer class="muted small">Made by mallow {summary.mallow} from {summary.file}. This page needs nothing but itself.</footer>
    </main>
  );
}

/** Which kind of page this is, the data says. */
async function content() {
  if (hasBlock("diff")) return <DiffPage d={(await unpack("diff")) as DiffDocument} />;
  if (hasBlock("compare")) return <ComparePage d={(await unpack("compare")) as CompareDocument} />;
  if (hasBlock("tune")) return <TunePage d={(await unpack("tune")) as TuneDocument} />;
  if (hasBlock("fleet")) return <FleetPage d={(await unpack("fleet")) as FleetDocument} />;
  if (hasBlock("fleet-diff")) return <FleetDiffPage d={(await unpack("fleet-diff")) as FleetDiffDocument} />;
  if (hasBlock("heap-difference")) return <HeapDifferencePage d={(await unpack("heap-difference")) as HeapDifference} />;
  if (hasBlock("heap")) return <HeapPage d={(await unpack("heap")) as HeapDocument} />;
  return <Page summary={await loadSummary()} />;
}

const place = document.getElementById("page")!;
content().then(
  (page) => {
    place.textContent = "";
    render(page, place);
  },
  (failure) => {
    place.textContent = typeof DecompressionStream === "undefined"
      ? "This browser is too old for this page: it cannot unpack data (DecompressionStream). Firefox 113, Chromium 80, Safari 16.4 and later can."
      : `This page could not be read: ${failure}`;
  },
);
