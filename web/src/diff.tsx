/** The page of `mallow diff`: what changed between two recordings, by call stack. */
import { useMemo, useState } from "preact/hooks";
import { frameText, SiteName, SiteStack } from "./callsite";
import { Flame } from "./flame";
import { matcher } from "./frames";
import { Section, Title, Toggle, useColours, useReady } from "./shell";
import { asProcess, type DocumentStack } from "./stacks";
import { buildTree, type TreeNode } from "./tree";
import { bytes, count, exact, percent, plural } from "./units";

interface DiffFigures {
  calls: number;
  allocated_bytes: number;
  peak_bytes: number;
  peak_blocks: number;
  end_live_bytes: number;
  end_live_blocks: number;
  temporary: number;
}

interface Side {
  file: string;
  processes: number;
  events: number;
  lost_events: number;
  totals: DiffFigures;
}

export interface DiffDocument {
  mallow: string;
  by: string;
  old: Side;
  new: Side;
  growth: DiffFigures;
  sites: (DocumentStack & { old: DiffFigures; new: DiffFigures; growth: DiffFigures })[];
  sites_total: number;
}

const FIGURES: { key: keyof DiffFigures; by: string; name: string; what: string; show: (v: number) => string }[] = [
  { key: "end_live_bytes", by: "end", name: "End", what: "bytes live at the end", show: bytes },
  { key: "peak_bytes", by: "peak", name: "Peak", what: "bytes live at the peak", show: bytes },
  { key: "allocated_bytes", by: "allocated", name: "Allocated", what: "bytes allocated", show: bytes },
  { key: "temporary", by: "temporary", name: "Temporary", what: "temporary allocations", show: count },
  { key: "calls", by: "calls", name: "Calls", what: "allocations", show: count },
];

const signed = (v: number, show: (v: number) => string) => (v > 0 ? `+${show(v)}` : show(v));

export function DiffPage({ d }: { d: DiffDocument }) {
  const colours = useColours();
  const start = FIGURES.find((f) => f.by === new URLSearchParams(location.hash.slice(1)).get("by")) ?? FIGURES.find((f) => d.growth[f.key] !== 0) ?? FIGURES[0];
  const [figure, setFigure] = useState(start);
  const [show, setShow] = useState<"both" | "grew" | "shrank">("both");
  const [reversed, setReversed] = useState(false);
  const [byLine, setByLine] = useState(false);
  const [focus, setFocus] = useState("");
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState(-1);
  const [shown, setShown] = useState(50);
  const p = useMemo(() => asProcess(d.sites), [d]);
  const growths = useMemo(() => d.sites.map((s) => s.growth[figure.key]), [d, figure]);
  const weigh = show === "both" ? Math.abs : show === "grew" ? (v: number) => Math.max(0, v) : (v: number) => Math.max(0, -v);
  const values = useMemo(() => growths.map(weigh), [growths, show]);
  const grown = growths.reduce((sum, v) => sum + Math.max(0, v), 0);
  const shrunk = growths.reduce((sum, v) => sum + Math.max(0, -v), 0);
  const tree = useMemo(() => buildTree(p, values, { reversed, hideLibraries: false, hideWrappers: true, byLine }), [p, values, reversed, byLine]);
  /** What passes through a frame, with its sign; and as a share of what changed there, for its colour. */
  const change = useMemo(() => {
    const known = new Map<TreeNode, number>();
    return (n: TreeNode) => {
      let sum = known.get(n);
      if (sum === undefined) known.set(n, (sum = Array.from(n.groups).reduce((all, g) => all + growths[g], 0)));
      return sum;
    };
  }, [tree, growths]);
  const test = useMemo(() => matcher(search), [search]);
  const order = useMemo(() => {
    const all = d.sites.map((s, i) => ({ s, i })).filter(({ i }) => (show === "both" ? growths[i] !== 0 : values[i] > 0));
    const pass = test ? all.filter(({ s }) => s.frames.some((f) => test(frameText(f)))) : all;
    return pass.sort((a, b) => values[b.i] - values[a.i] || growths[b.i] - growths[a.i]);
  }, [d, growths, values, test]);
  const most = Math.max(1, ...d.sites.map((s) => Math.abs(s.growth[figure.key])));
  useReady(true);
  const choose = (f: (typeof FIGURES)[number]) => {
    setFigure(f);
    setFocus("");
    history.replaceState(null, "", `#by=${f.by}`);
  };
  return (
    <main>
      <header>
        <Title text={`${d.old.file.split("/").pop()} → ${d.new.file.split("/").pop()}`} full={`${d.old.file} → ${d.new.file}`} colours={colours} />
        <p class="muted">What changed between two recordings, by call stack: {plural(d.old.events, "call")} before, {plural(d.new.events, "call")} now.</p>
      </header>
      {(d.old.lost_events > 0 || d.new.lost_events > 0) && <p class="warnings">Calls were lost: {exact(d.old.lost_events)} before, {exact(d.new.lost_events)} now. Differences may be due to that.</p>}
      <Section id="how-much" title="How much?">
        <div class="table-box"><table class="plain" id="totals">
          <thead><tr><th scope="col">Figure</th><th class="number" scope="col">Before</th><th class="number" scope="col">Now</th><th class="number" scope="col">Growth</th><th class="number" scope="col" /></tr></thead>
          <tbody>{FIGURES.map((f) => <tr key={f.by} class={f === figure ? "chosen" : ""}>
            <td>{f.what[0].toUpperCase() + f.what.slice(1)}</td>
            <td class="number" title={exact(d.old.totals[f.key])}>{f.show(d.old.totals[f.key])}</td>
            <td class="number" title={exact(d.new.totals[f.key])}>{f.show(d.new.totals[f.key])}</td>
            <td class="number" data-figure={f.by} data-exact={d.growth[f.key]} title={exact(d.growth[f.key])}>{signed(d.growth[f.key], f.show)}</td>
            <td class="number muted">{percent(d.growth[f.key], d.old.totals[f.key])}</td>
          </tr>)}</tbody>
        </table></div>
      </Section>
      <Section id="who" title="Who?" question={d.sites_total ? `${plural(d.sites_total, "call stack")} ${d.sites_total === 1 ? "differs" : "differ"}` : "nothing differs"}>
        <div class="controls">
          <div class="segmented" role="group" aria-label="Figure">{FIGURES.map((f) => <button key={f.by} id={`by-${f.by}`} aria-pressed={f === figure} onClick={() => choose(f)}>{f.name}</button>)}</div>
          <div class="segmented" role="group" aria-label="Direction">
            {(["both", "grew", "shrank"] as const).map((m) => <button key={m} id={`show-${m}`} aria-pressed={show === m} onClick={() => { setShow(m); setFocus(""); }}>{m[0].toUpperCase() + m.slice(1)}</button>)}
          </div>
          <input type="search" id="search" placeholder="Search frames; /regex/" aria-label="Search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
          <Toggle id="reversed" on={reversed} label="Reversed" title="Begin at the functions that allocate" onChange={setReversed} />
          <Toggle id="by-line" on={byLine} label="Source lines" title="The same function at two lines is two frames" onChange={setByLine} />
        </div>
        <p class="total">
          {show !== "shrank" && <><i class="swatch grew" /><span id="flame-grown" data-exact={grown}>{grown ? "+" : ""}{figure.show(grown)}</span> <span class="muted">where it grew</span> </>}
          {show !== "grew" && <><i class="swatch shrank" /><span id="flame-shrunk" data-exact={shrunk}>{shrunk ? "-" : ""}{figure.show(shrunk)}</span> <span class="muted">where it shrank</span> </>}
          <span class="muted">{figure.what}; a frame is as wide as what changed below it</span>
        </p>
        <Flame p={p} tree={tree} focus={focus} search={search} icicle={true} byLine={byLine} what={show === "both" ? "what changed" : `what ${show}`} human={figure.show} dark={colours.dark} onFocus={setFocus}
          change={{ of: change, show: (v) => signed(v, figure.show) }} />
        <h3>Call stacks</h3>
        <div class="table-box"><table class="plain" id="sites">
          <thead><tr><th scope="col">Call site</th><th class="number" scope="col">Before</th><th class="number" scope="col">Now</th><th class="number" scope="col">Growth</th></tr></thead>
          <tbody>{order.slice(0, shown).map(({ s, i }) => {
            const growth = s.growth[figure.key];
            return <>
              <tr key={i} data-site={i}>
                <SiteName s={s} open={open === i} onOpen={() => setOpen(open === i ? -1 : i)} />
                <td class="number" title={exact(s.old[figure.key])}>{figure.show(s.old[figure.key])}</td>
                <td class="number" title={exact(s.new[figure.key])}>{figure.show(s.new[figure.key])}</td>
                <td class={`number by ${growth < 0 ? "less" : ""}`} data-exact={growth} title={exact(growth)} style={{ backgroundSize: `${(100 * Math.abs(growth)) / most}% 100%` }}>{signed(growth, figure.show)}</td>
              </tr>
              {open === i && <SiteStack key={`${i}-stack`} s={s} columns={4} />}
            </>;
          })}</tbody>
        </table></div>
        {order.length === 0 && <p class="muted">Nothing.</p>}
        {order.length > shown && <p><button onClick={() => setShown(shown + 200)}>Show 200 more of {exact(order.length - shown)}</button></p>}
      </Section>
      <footer class="muted small">
        {d.sites.length < d.sites_total && <p id="folded">{exact(d.sites_total - d.sites.length)} call stacks with the smallest changes by {d.by} are not on this page; the totals hold them.</p>}
        Made by mallow {d.mallow}. This page needs nothing but itself.
      </footer>
    </main>
  );
}
