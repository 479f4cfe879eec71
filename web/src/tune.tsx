/** The page of `mallow tune`: what was searched, what came out best, whether it held, and what to set. */
import { useMemo, useState } from "preact/hooks";
import { AxisPickers, Candidates, frontOf, nameOf, OverTime, placeLabels, Plane, showOf, type Axis, type CompareDocument } from "./compare";
import { Section, Title, useColours, useReady } from "./shell";
import { count, exact, plural } from "./units";

interface Value {
  median: number;
  to_default: number;
}

interface Ratio {
  median: number;
  ratio?: number | null;
  ratio_low?: number | null;
  ratio_high?: number | null;
  differs?: boolean;
}

type Point = { settings: Record<string, string>; environment: string; runs: number } & Record<string, Value | string | number | Record<string, string>>;

type Winner = Point & { objective: string; candidate: string; confirmed: boolean; fresh: Record<string, Ratio> };

export interface TuneDocument {
  workload: string;
  allocator: string;
  seed: number;
  runs: number;
  failed_runs: number;
  points: number;
  confirmation_rounds: number;
  default: Point;
  default_on_front: boolean;
  front: Point[];
  winners: Winner[];
  searched: Point[];
  /** Not there when nothing was better than the default. */
  confirmation?: CompareDocument;
}

const CLAIMS: Record<string, string> = { peak: "Smallest peak RSS", average: "Smallest average RSS", time: "Least time", all: "Best of all three" };
const claimOf = (w: Winner) => CLAIMS[w.objective] ?? w.objective;
const valueOf = (p: Point, key: string) => p[key] as Value;
const change = (ratio: number) => `${ratio >= 1 ? "+" : "\u2212"}${Math.abs((ratio - 1) * 100).toFixed(1)} %`;

/** The three figures of a tuning: what a point has medians of. */
const metricsOf = (d: TuneDocument) => Object.keys(d.default).filter((k) => typeof (d.default[k] as Value)?.median === "number");

function Line({ p }: { p: Point }) {
  const [copied, setCopied] = useState(false);
  if (!p.environment) return <span class="muted">nothing to set</span>;
  const copy = () => {
    navigator.clipboard?.writeText(p.environment).then(() => setCopied(true), () => setCopied(false));
    setTimeout(() => setCopied(false), 2000);
  };
  return <span class="environment"><code>{p.environment}</code> <button class="small" onClick={copy} title="The words to put before the program's command line">{copied ? "Copied" : "Copy"}</button></span>;
}

function Winners({ d, keys }: { d: TuneDocument; keys: string[] }) {
  if (!d.winners.length) return <p id="winners">No setting was found that is better than the default: there is nothing to set.</p>;
  return (
    <div class="table-box"><table class="plain" id="winners">
      <thead><tr><th scope="col">Setting</th>{keys.map((k) => <th key={k} class="number" scope="col">{nameOf(k)}</th>)}<th scope="col">Environment</th></tr></thead>
      <tbody>{d.winners.map((w) => <tr key={w.candidate} data-winner={w.objective} data-confirmed={w.confirmed}>
        <td class="claim"><b>{claimOf(w)}</b><div class={`small verdict ${w.confirmed ? "yes" : "no"}`}>{w.confirmed ? "\u2713 confirmed" : "\u2717 not confirmed"}</div></td>
        {keys.map((k) => {
          const f = w.fresh[k];
          const known = typeof f.ratio === "number";
          return <td key={k} class="number" data-metric={k} data-exact={f.median} title={known ? `${change(f.ratio_low!)} to ${change(f.ratio_high!)}, 99 % interval` : ""}>
            {showOf(k)(f.median)}<div class="muted small">{!known ? " " : f.differs ? change(f.ratio!) : `= (${change(f.ratio!)})`}</div></td>;
        })}
        <td><Line p={w} /></td>
      </tr>)}</tbody>
    </table></div>
  );
}

/** From a little below the least to a little above the most; from nothing on when that is near. */
function axisOf(points: Point[], key: string): Axis {
  const values = points.map((p) => valueOf(p, key).median);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const spare = (high - low || high || 1) * 0.08;
  return { from: low < 0.5 * high ? 0 : low - spare, to: high + spare, name: nameOf(key), metric: key };
}

function Searched({ d, x, y, chosen, onChoose }: { d: TuneDocument; x: string; y: string; chosen: string | null; onChoose: (environment: string | null) => void }) {
  const at = (key: string) => (p: Point) => valueOf(p, key).median;
  const front = useMemo(() => frontOf(d.searched, at(x), at(y)), [d, x, y]);
  const stays = new Set(d.front.map((p) => p.environment));
  const axes = { x: axisOf(d.searched, x), y: axisOf(d.searched, y) };
  const winners = new Map(d.winners.map((w) => [w.environment, w]));
  /** Those that matter are drawn last, above the others. */
  const rank = (p: Point) => (p.environment === d.default.environment ? 3 : winners.has(p.environment) ? 2 : stays.has(p.environment) ? 1 : 0);
  const points = [...d.searched].sort((a, b) => rank(a) - rank(b));
  return (
    <Plane id="pareto" x={axes.x} y={axes.y}>{(px, py, width) => {
      const named = points.filter((p) => rank(p) >= 2);
      const nameOfPoint = (p: Point) => (rank(p) === 3 ? "the default" : claimOf(winners.get(p.environment)!).toLowerCase());
      const labels = placeLabels(named.map((p) => ({ x: px(at(x)(p)), y: py(at(y)(p)), text: nameOfPoint(p) })), width);
      return <>
      <polyline class="front" points={front.map((p) => `${px(at(x)(p))},${py(at(y)(p))}`).join(" ")} />
      {points.map((p) => {
        const kind = ["tried", "stays", "winner", "default"][rank(p)];
        const [cx, cy] = [px(at(x)(p)), py(at(y)(p))];
        const label = labels[named.indexOf(p)];
        return <g key={p.environment} class={`point ${kind}${chosen === p.environment ? " chosen" : ""}`} data-point={p.environment} onMouseEnter={() => onChoose(p.environment)} onMouseLeave={() => onChoose(null)}>
          <title>{`${p.environment || "the default"}\n${showOf(x)(at(x)(p))}, ${change(valueOf(p, x).to_default)}; ${showOf(y)(at(y)(p))}, ${change(valueOf(p, y).to_default)}\n${plural(p.runs, "run")}`}</title>
          {kind === "default" ? <path d={`M${cx - 8},${cy}L${cx},${cy - 8}L${cx + 8},${cy}L${cx},${cy + 8}Z`} /> : <circle cx={cx} cy={cy} r={kind === "tried" ? 4 : 6} />}
          {kind === "winner" && <circle class="ring" cx={cx} cy={cy} r={10} />}
          {label && <text x={label.x} y={label.y} text-anchor={label.anchor}>{nameOfPoint(p)}</text>}
        </g>;
      })}
    </>;
    }}</Plane>
  );
}

function Front({ d, keys, chosen, onChoose }: { d: TuneDocument; keys: string[]; chosen: string | null; onChoose: (environment: string | null) => void }) {
  const rows = d.default_on_front ? d.front : [...d.front, d.default];
  return (
    <div class="table-box"><table class="plain" id="front">
      <thead><tr>{keys.map((k) => <th key={k} class="number" scope="col">{nameOf(k)}</th>)}<th class="number" scope="col">Runs</th><th scope="col">Environment</th></tr></thead>
      <tbody>{rows.map((p) => {
        const usual = p.environment === d.default.environment;
        return <tr key={p.environment} data-front={p.environment} class={chosen === p.environment ? "chosen" : ""} onMouseEnter={() => onChoose(p.environment)} onMouseLeave={() => onChoose(null)}>
          {keys.map((k) => <td key={k} class="number" data-metric={k} data-exact={valueOf(p, k).median}>{showOf(k)(valueOf(p, k).median)}<div class="muted small">{usual ? " " : change(valueOf(p, k).to_default)}</div></td>)}
          <td class="number">{exact(p.runs)}</td>
          <td>{usual ? <><b>the default</b>{!d.default_on_front && <span class="muted"> (not on the front)</span>} {p.environment && <Line p={p} />}</> : <Line p={p} />}</td>
        </tr>;
      })}</tbody>
    </table></div>
  );
}

/** The confirmation, with short names: the default, and what each winner claims. */
function confirmationOf(d: TuneDocument): CompareDocument | null {
  const c = d.confirmation;
  if (!c) return null;
  const claims = new Map(d.winners.map((w) => [w.candidate, claimOf(w)]));
  const rename = (candidate: string) => claims.get(candidate) ?? "The default";
  return { ...c, candidates: c.candidates.map((k) => ({ ...k, candidate: rename(k.candidate) })), runs: c.runs.map((r) => ({ ...r, candidate: rename(r.candidate) })) };
}

export function TunePage({ d }: { d: TuneDocument }) {
  const colours = useColours();
  const keys = useMemo(() => metricsOf(d), [d]);
  const confirmation = useMemo(() => confirmationOf(d), [d]);
  const [x, setX] = useState(keys.find((k) => /_ns$/.test(k)) ?? keys[0]);
  const [y, setY] = useState(keys.find((k) => /peak/.test(k)) ?? keys[0]);
  const [chosen, setChosen] = useState<string | null>(null);
  useReady(true);
  return (
    <main>
      <header>
        <Title text={`Settings of ${d.allocator} for ${d.workload.split("/").pop()}`} full={d.workload} colours={colours} />
        <p class="muted"><span id="runs" data-exact={d.runs}>{plural(d.runs, "run")}</span> of <span id="points" data-exact={d.points}>{plural(d.points, "setting")}</span>{d.failed_runs > 0 && `, ${plural(d.failed_runs, "run")} failed`}; seed {d.seed}. Every figure is better when it is smaller.</p>
      </header>
      <Section id="what" title="What to set?" question={confirmation ? `in ${count(d.confirmation_rounds)} fresh rounds against the default, which the search had no part in; = where no difference is sure` : undefined}>
        <Winners d={d} keys={keys} />
      </Section>
      <Section id="trade" title="What does it cost?" question="every setting that was run; nearer to the lower left is better">
        <AxisPickers keys={keys} x={x} y={y} onX={setX} onY={setY} />
        <div class="legend"><span><svg class="key point default" viewBox="0 0 16 16"><path d="M0,8L8,0L16,8L8,16Z" /></svg>The default</span>
          <span><svg class="key point stays" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" /></svg>On the front: no other is better in all three</span>
          <span><svg class="key point winner" viewBox="0 0 16 16"><circle cx="8" cy="8" r="4" /><circle class="ring" cx="8" cy="8" r="7" /></svg>Run again to be confirmed</span>
          <span><svg class="key point tried" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5" /></svg>Tried</span><span class="muted">dashed: no other is better in these two</span></div>
        <Searched d={d} x={x} y={y} chosen={chosen} onChoose={setChosen} />
        <h3>The Pareto front</h3>
        <Front d={d} keys={keys} chosen={chosen} onChoose={setChosen} />
      </Section>
      {confirmation && <Section id="when" title="When?" question="resident size above the start, one run of each">
        <OverTime d={confirmation} dark={colours.dark} />
        <h3>All figures of the fresh rounds</h3>
        <Candidates d={confirmation} />
      </Section>}
      <footer class="muted small">This page needs nothing but itself. 'mallow tune --json' has the same figures.</footer>
    </main>
  );
}
