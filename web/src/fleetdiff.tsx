/** The page of `mallow fleet diff`: what a process holds more or less in one selection of processes than in another. */
import { useMemo, useState } from "preact/hooks";
import { frameText, SiteName, SiteStack } from "./callsite";
import { FLEET_FIGURES, type Selection, selectionText } from "./fleet";
import { Flame } from "./flame";
import { matcher } from "./frames";
import { Section, Title, Toggle, useColours, useReady } from "./shell";
import { asProcess, type DocumentStack } from "./stacks";
import { buildTree, type TreeNode } from "./tree";
import { exact, plural } from "./units";

interface Side {
  processes: number;
  hosts: number;
  builds: number;
  selection: Selection;
}

/** The keys of a figure that is no count end with _bytes. */
type FleetChange = DocumentStack & Record<string, number> & { differs: boolean | null; old_processes: number; new_processes: number };

export interface FleetDiffDocument {
  mallow: string;
  store: string;
  by: string;
  confidence: number;
  old: Side;
  new: Side;
  sites: FleetChange[];
  sites_total: number;
}

export function FleetDiffPage({ d }: { d: FleetDiffDocument }) {
  const colours = useColours();
  const figure = FLEET_FIGURES.find((f) => f.by === d.by)!;
  const unit = d.by === "temporary" || d.by === "calls" ? "" : "_bytes";
  const of = (s: FleetChange, key: string) => s[`${key}${unit}`];
  const signed = (v: number) => (v > 0 ? `+${figure.show(v)}` : figure.show(v));
  const [direction, setDirection] = useState<"both" | "grew" | "shrank">("both");
  const [chance, setChance] = useState(false);
  const [reversed, setReversed] = useState(false);
  const [focus, setFocus] = useState("");
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState(-1);
  const [shown, setShown] = useState(50);
  const p = useMemo(() => asProcess(d.sites), [d]);
  const growths = useMemo(() => d.sites.map((s) => (chance || s.differs !== false ? of(s, "growth") : 0)), [d, chance]);
  const values = useMemo(() => growths.map((v) => (direction === "both" ? Math.abs(v) : Math.max(0, direction === "grew" ? v : -v))), [growths, direction]);
  const tree = useMemo(() => buildTree(p, values, { reversed, hideLibraries: false, hideWrappers: true, byLine: false }), [p, values, reversed]);
  const change = useMemo(() => {
    const known = new Map<TreeNode, number>();
    return (n: TreeNode) => {
      let sum = known.get(n);
      if (sum === undefined) known.set(n, (sum = Array.from(n.groups).reduce((all, g) => all + growths[g], 0)));
      return sum;
    };
  }, [tree, growths]);
  const test = useMemo(() => matcher(search), [search]);
  const order = useMemo(() => d.sites.map((s, i) => ({ s, i })).filter(({ s, i }) => values[i] > 0 && (!test || s.frames.some((f) => test(frameText(f)))))
    .sort((a, b) => values[b.i] - values[a.i] || a.i - b.i), [d, values, test]);
  const grown = growths.reduce((sum, v) => sum + Math.max(0, v), 0);
  const shrunk = growths.reduce((sum, v) => sum + Math.max(0, -v), 0);
  const unsure = d.sites.filter((s) => s.differs === false).length;
  const most = values.reduce((a, b) => Math.max(a, b), 1);
  useReady(true);
  return (
    <main>
      <header>
        <Title text={d.store.split("/").pop()!} full={d.store} colours={colours} />
        <p class="muted">What a process holds more or less, {figure.what}: the mean of <b id="new">{plural(d.new.processes, "process", "processes")}</b> ({selectionText(d.new.selection) || "all"}; {plural(d.new.hosts, "host")}, {plural(d.new.builds, "build")})
          against that of <b id="old">{plural(d.old.processes, "process", "processes")}</b> ({selectionText(d.old.selection) || "all"}; {plural(d.old.hosts, "host")}, {plural(d.old.builds, "build")})</p>
      </header>
      <Section id="who" title="Who?" question={d.sites.length ? `bounds at ${Math.round(d.confidence * 100)} %` : "nothing differs"}>
        <div class="controls">
          <div class="segmented" role="group" aria-label="Direction">
            {(["both", "grew", "shrank"] as const).map((m) => <button key={m} id={`show-${m}`} aria-pressed={direction === m} onClick={() => { setDirection(m); setFocus(""); }}>{m[0].toUpperCase() + m.slice(1)}</button>)}
          </div>
          <input type="search" id="search" placeholder="Search frames; /regex/" aria-label="Search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
          <Toggle id="reversed" on={reversed} label="Reversed" title="Begin at the functions that allocate" onChange={setReversed} />
          {unsure > 0 && <Toggle id="chance" on={chance} label="What may be chance" title="Also call sites whose difference is within the bounds of chance" onChange={setChance} />}
        </div>
        <p class="total">
          {direction !== "shrank" && <><i class="swatch grew" /><span id="flame-grown" data-exact={grown}>{grown ? "+" : ""}{figure.show(grown)}</span> <span class="muted">where it grew</span> </>}
          {direction !== "grew" && <><i class="swatch shrank" /><span id="flame-shrunk" data-exact={shrunk}>{shrunk ? "-" : ""}{figure.show(shrunk)}</span> <span class="muted">where it shrank</span> </>}
          <span class="muted">in a process; a frame is as wide as what changed below it</span>
        </p>
        <Flame p={p} tree={tree} focus={focus} search={search} icicle={true} byLine={false} what={direction === "both" ? "what changed" : `what ${direction}`} human={figure.show} dark={colours.dark} onFocus={setFocus} change={{ of: change, show: signed }} />
        <h3>Call sites</h3>
        <div class="table-box"><table class="plain" id="sites">
          <thead><tr><th scope="col">Call site</th><th class="number" scope="col">Before</th><th class="number" scope="col">Now</th><th class="number" scope="col">Growth</th><th class="number" scope="col">At least</th><th class="number" scope="col">At most</th>
            <th class="number" scope="col" title="Processes that have the call site, before and now">Processes</th></tr></thead>
          <tbody>{order.slice(0, shown).map(({ s, i }) => {
            const cell = (key: string) => <td class="number" data-figure={key} data-exact={of(s, key)} title={of(s, key) === undefined ? "Needs two processes on each side" : exact(of(s, key))}>{of(s, key) === undefined ? "?" : key.startsWith("growth") ? signed(of(s, key)) : figure.show(of(s, key))}</td>;
            return <>
              <tr key={i} data-site={i}>
                <SiteName s={s} open={open === i} onOpen={() => setOpen(open === i ? -1 : i)} />
                {cell("old_mean")}{cell("new_mean")}
                <td class={`number by ${growths[i] < 0 ? "less" : ""}`} data-figure="growth" data-exact={growths[i]} title={exact(growths[i])} style={{ backgroundSize: `${(100 * values[i]) / most}% 100%` }}>{signed(growths[i])}</td>
                {cell("growth_low")}{cell("growth_high")}
                <td class="number">{exact(s.old_processes)} → {exact(s.new_processes)}</td>
              </tr>
              {open === i && <SiteStack key={`${i}-stack`} s={s} columns={7} />}
            </>;
          })}</tbody>
        </table></div>
        {order.length === 0 && <p class="muted">Nothing.</p>}
        {order.length > shown && <p><button onClick={() => setShown(shown + 200)}>Show 200 more of {exact(order.length - shown)}</button></p>}
      </Section>
      <footer class="muted small">
        {unsure > 0 && !chance && <p id="unsure" data-exact={unsure}>{plural(unsure, "call site")} more may differ by chance alone.</p>}
        {d.sites.length < d.sites_total && <p id="folded">{exact(d.sites_total - d.sites.length)} call sites with the smallest changes are not on this page.</p>}
        Made by mallow {d.mallow}. This page needs nothing but itself. 'mallow fleet diff --json' has the same figures.
      </footer>
    </main>
  );
}
