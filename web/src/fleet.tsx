/** The page of `mallow fleet report`: which call sites hold most over many processes, and in which of them. */
import { useMemo, useState } from "preact/hooks";
import { frameText, SiteName, SiteStack } from "./callsite";
import { Flame } from "./flame";
import { matcher } from "./frames";
import { Section, Title, Toggle, useColours, useReady } from "./shell";
import { asProcess, type DocumentStack } from "./stacks";
import { buildTree } from "./tree";
import { bytes, count, exact, percent, plural } from "./units";

interface SiteFigures {
  calls: number;
  allocated_bytes: number;
  peak_bytes: number;
  end_live_bytes: number;
  temporary: number;
}

interface FleetSite extends DocumentStack, SiteFigures {
  processes: number;
  hosts: number;
}

interface Spread {
  processes: number;
  sum: number;
  minimum: number;
  median: number;
  p90: number;
  maximum: number;
}

export interface Selection {
  host?: string;
  service?: string;
  build_id?: string;
  since_ns?: number;
  until_ns?: number;
  labels?: { key: string; value: string }[];
}

export interface FleetDocument {
  mallow: string;
  store: string;
  by: string;
  selection: Selection;
  processes: number;
  incomplete_processes: number;
  hosts: number;
  services: number;
  builds: number;
  events: number;
  lost_events: number;
  requested_bytes: number;
  peak_live_bytes: number;
  end_live_bytes: number;
  temporary_allocations: number;
  calls: number;
  sites: FleetSite[];
  sites_total: number;
  sites_left_out: number;
  left_out: SiteFigures;
  parts: { group_by: string; figures: { by: string; groups: (Spread & { group: string })[]; groups_total: number }[] }[];
}

interface Figure {
  by: string;
  name: string;
  what: string;
  key: keyof SiteFigures;
  total: "peak_live_bytes" | "end_live_bytes" | "requested_bytes" | "temporary_allocations" | "calls";
  show: (v: number) => string;
}

export const FLEET_FIGURES: Figure[] = [
  { by: "peak", name: "Peak", what: "bytes live at the peak of each process", key: "peak_bytes", total: "peak_live_bytes", show: bytes },
  { by: "end", name: "End", what: "bytes live at the end", key: "end_live_bytes", total: "end_live_bytes", show: bytes },
  { by: "allocated", name: "Allocated", what: "bytes allocated", key: "allocated_bytes", total: "requested_bytes", show: bytes },
  { by: "temporary", name: "Temporary", what: "temporary allocations", key: "temporary", total: "temporary_allocations", show: count },
  { by: "calls", name: "Calls", what: "allocations", key: "calls", total: "calls", show: count },
];

const time = (ns: number) => new Date(ns / 1e6).toISOString().replace(/\.\d+Z$/, "Z");

/** A selection of processes as people read it; "": all of them. */
export function selectionText(s: Selection): string {
  return [s.host !== undefined && `host ${s.host}`, s.service !== undefined && `service ${s.service}`, s.build_id !== undefined && `build ${s.build_id}`,
    s.since_ns !== undefined && `since ${time(s.since_ns)}`, s.until_ns !== undefined && `until ${time(s.until_ns)}`,
    ...(s.labels ?? []).map((l) => `${l.key} ${l.value}`)].filter(Boolean).join(", ");
}

function Where({ d, figure }: { d: FleetDocument; figure: Figure }) {
  const kinds = d.parts.filter((p) => p.figures.some((f) => f.groups.some((g) => g.group !== "")));
  const [chosen, setChosen] = useState(kinds[0]?.group_by);
  const [shown, setShown] = useState(20);
  const part = kinds.find((p) => p.group_by === chosen)?.figures.find((f) => f.by === figure.by);
  if (!part) return null;
  const most = Math.max(1, ...part.groups.map((g) => g.sum));
  const cell = (v: number) => <td class="number" title={exact(v)} data-exact={v}>{figure.show(v)}</td>;
  return (
    <Section id="where" title="Where?" question={`${figure.what}, of all processes of a part, and how they differ from process to process`}>
      <div class="controls"><div class="segmented" role="group" aria-label="Parts">
        {kinds.map((p) => <button key={p.group_by} id={`part-${p.group_by.replace(/[^\w-]/g, "-")}`} aria-pressed={p.group_by === chosen} onClick={() => { setChosen(p.group_by); setShown(20); }}>{p.group_by}</button>)}
      </div></div>
      <div class="table-box"><table class="plain" id="parts">
        <thead><tr><th scope="col">{chosen}</th>{["Processes", "Sum", "Least", "Median", "90%", "Most"].map((c) => <th key={c} class="number" scope="col">{c}</th>)}</tr></thead>
        <tbody>{part.groups.slice(0, shown).map((g) => <tr key={g.group} data-group={g.group}>
          <td>{g.group || "(none)"}</td>{<td class="number" data-exact={g.processes}>{exact(g.processes)}</td>}
          <td class="number by" title={exact(g.sum)} data-exact={g.sum} style={{ backgroundSize: `${(100 * g.sum) / most}% 100%` }}>{figure.show(g.sum)}</td>
          {cell(g.minimum)}{cell(g.median)}{cell(g.p90)}{cell(g.maximum)}
        </tr>)}</tbody>
      </table></div>
      {part.groups.length > shown && <p><button onClick={() => setShown(shown + 200)}>Show 200 more of {exact(part.groups.length - shown)}</button></p>}
      {part.groups_total > part.groups.length && <p class="muted">{exact(part.groups_total - part.groups.length)} more are not on this page.</p>}
    </Section>
  );
}

export function FleetPage({ d }: { d: FleetDocument }) {
  const colours = useColours();
  const asked = new URLSearchParams(location.hash.slice(1)).get("by") ?? d.by;
  const [figure, setFigure] = useState(FLEET_FIGURES.find((f) => f.by === asked) ?? FLEET_FIGURES[0]);
  const [reversed, setReversed] = useState(false);
  const [wrappers, setWrappers] = useState(false);
  const [byLine, setByLine] = useState(false);
  const [focus, setFocus] = useState("");
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState(-1);
  const [shown, setShown] = useState(50);
  const p = useMemo(() => asProcess(d.sites), [d]);
  const values = useMemo(() => d.sites.map((s) => s[figure.key]), [d, figure]);
  const tree = useMemo(() => buildTree(p, values, { reversed, hideLibraries: false, hideWrappers: !wrappers, byLine }), [p, values, reversed, wrappers, byLine]);
  const test = useMemo(() => matcher(search), [search]);
  const order = useMemo(() => d.sites.map((s, i) => ({ s, i })).filter(({ s, i }) => values[i] > 0 && (!test || s.frames.some((f) => test(frameText(f)))))
    .sort((a, b) => values[b.i] - values[a.i] || a.i - b.i), [d, values, test]);
  const most = values.reduce((a, b) => Math.max(a, b), 1);
  const rest = d.left_out[figure.key];
  useReady(true);
  const choose = (f: Figure) => {
    setFigure(f);
    setFocus("");
    history.replaceState(null, "", `#by=${f.by}`);
  };
  return (
    <main>
      <header>
        <Title text={d.store.split("/").pop()!} full={d.store} colours={colours} />
        <p class="muted"><span id="processes" data-exact={d.processes}>{plural(d.processes, "process", "processes")}</span> on <span id="hosts" data-exact={d.hosts}>{plural(d.hosts, "host")}</span>, {plural(d.services, "service")}, {plural(d.builds, "build")}; {plural(d.events, "call")}</p>
        {selectionText(d.selection) && <p class="warnings" id="selection">Only: {selectionText(d.selection)}</p>}
      </header>
      {(d.lost_events > 0 || d.incomplete_processes > 0) && <p class="warnings">{plural(d.incomplete_processes, "process has", "processes have")} no end in their recordings; {plural(d.lost_events, "call is", "calls are")} missing.</p>}
      <Section id="how-much" title="How much?" question="sums over the processes">
        <div class="figures">{FLEET_FIGURES.map((f) => <div key={f.by} class="figure" title={exact(d[f.total])}>
          <div class="muted">{f.name}</div><div class="big" id={`total-${f.by}`} data-exact={d[f.total]}>{f.show(d[f.total])}</div><div class="muted small">{f.what}</div>
        </div>)}</div>
      </Section>
      <Section id="who" title="Who?" question={figure.what}>
        <div class="controls">
          <div class="segmented" role="group" aria-label="Figure">{FLEET_FIGURES.map((f) => <button key={f.by} id={`by-${f.by}`} aria-pressed={f === figure} onClick={() => choose(f)}>{f.name}</button>)}</div>
          <input type="search" id="search" placeholder="Search frames; /regex/" aria-label="Search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
          <Toggle id="reversed" on={reversed} label="Reversed" title="Begin at the functions that allocate" onChange={setReversed} />
          <Toggle id="wrappers" on={wrappers} label="Show wrappers" title="Show as frames what stands between the call site and malloc" onChange={setWrappers} />
          <Toggle id="by-line" on={byLine} label="Source lines" title="The same function at two lines is two frames" onChange={setByLine} />
        </div>
        <p class="total">{figure.show(tree.root.value)} <span class="muted" id="flame-total" data-exact={tree.root.value}>{figure.what}{rest > 0 && `, and ${figure.show(rest)} in call sites that are not on this page`}</span></p>
        <Flame p={p} tree={tree} focus={focus} search={search} icicle={true} byLine={byLine} what={figure.what} human={figure.show} dark={colours.dark} onFocus={setFocus} />
        <h3>Call sites</h3>
        <div class="table-box"><table class="plain" id="sites">
          <thead><tr><th scope="col">Call site</th><th class="number" scope="col">{figure.name}</th><th class="number" scope="col" title="Of all processes">Share</th>
            {FLEET_FIGURES.filter((f) => f !== figure).map((f) => <th key={f.by} class="number" scope="col">{f.name}</th>)}
            <th class="number" scope="col" title={`Where the figure that was asked for (${d.by}) is not 0`}>Processes</th><th class="number" scope="col" title={`Where the figure that was asked for (${d.by}) is not 0`}>Hosts</th></tr></thead>
          <tbody>{order.slice(0, shown).map(({ s, i }) => <>
            <tr key={i} data-site={i}>
              <SiteName s={s} open={open === i} onOpen={() => setOpen(open === i ? -1 : i)} />
              <td class="number by" data-figure={figure.by} data-exact={values[i]} title={exact(values[i])} style={{ backgroundSize: `${(100 * values[i]) / most}% 100%` }}>{figure.show(values[i])}</td>
              <td class="number muted">{percent(values[i], d[figure.total])}</td>
              {FLEET_FIGURES.filter((f) => f !== figure).map((f) => <td key={f.by} class="number" data-figure={f.by} data-exact={s[f.key]} title={exact(s[f.key])}>{f.show(s[f.key])}</td>)}
              <td class="number" data-figure="processes" data-exact={s.processes}>{exact(s.processes)}</td>
              <td class="number" data-figure="hosts" data-exact={s.hosts}>{exact(s.hosts)}</td>
            </tr>
            {open === i && <SiteStack key={`${i}-stack`} s={s} columns={9} />}
          </>)}</tbody>
        </table></div>
        {order.length === 0 && <p class="muted">Nothing.</p>}
        {order.length > shown && <p><button onClick={() => setShown(shown + 200)}>Show 200 more of {exact(order.length - shown)}</button></p>}
      </Section>
      <Where d={d} figure={figure} />
      <footer class="muted small">
        {d.sites_left_out > 0 && <p id="folded" data-exact={d.sites_left_out}>{exact(d.sites_left_out)} call sites with the smallest {FLEET_FIGURES.find((f) => f.by === d.by)!.what} are not on this page; the totals hold them.</p>}
        Made by mallow {d.mallow}. This page needs nothing but itself. 'mallow fleet report --json' has the same figures.
      </footer>
    </main>
  );
}
