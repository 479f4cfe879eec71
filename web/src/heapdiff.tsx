/** The page of `mallow heap --diff`: what roots retain and what types there are, before and after. */
import { type Column, Rows } from "./heap";
import { Section, Title, useColours, useReady } from "./shell";
import { bytes, count } from "./units";

interface Facts {
  verified: boolean;
  reason?: string;
  used_bytes: number;
  blocks: number;
  free_bytes: number;
  trimmable_bytes: number;
  unreachable_bytes?: number;
}

interface Change {
  root?: string;
  kind?: string;
  module?: string;
  type?: string;
  old_retained_bytes: number;
  new_retained_bytes: number;
  old_retained_blocks?: number;
  new_retained_blocks?: number;
  old_bytes?: number;
  new_bytes?: number;
  old_blocks?: number;
  new_blocks?: number;
}

export interface HeapDifference {
  old_name: string;
  new_name: string;
  old: Facts;
  new: Facts;
  roots: Change[];
  types: Change[];
}

const signed = (n: number, show: (n: number) => string) => (n > 0 ? `+${show(n)}` : n < 0 ? `-${show(-n)}` : "0");
const grown = (c: Change) => c.new_retained_bytes - c.old_retained_bytes;
const size = (name: string, of: (c: Change) => number): Column<Change> => ({ name, show: (c) => bytes(of(c)), exact: of });
const change = (name: string, of: (c: Change) => number, show: (n: number) => string): Column<Change> => ({ name, show: (c) => signed(of(c), show), exact: of });
const byGrowth = (rows: Change[]) => rows.filter((c) => grown(c) !== 0 || (c.new_blocks ?? 0) !== (c.old_blocks ?? 0)).sort((a, b) => grown(b) - grown(a));
const short = (name: string) => name.split("/").pop()!;

export function HeapDifferencePage({ d }: { d: HeapDifference }) {
  const colours = useColours();
  useReady(true);
  const figures: [string, string, (f: Facts) => number | undefined][] = [["used", "in blocks of the program", (f) => f.used_bytes], ["free", "free in the arenas", (f) => f.free_bytes],
    ["trimmable", "of these, malloc_trim(0) would return", (f) => f.trimmable_bytes], ["unreachable", "unreachable", (f) => f.unreachable_bytes]];
  return (
    <main>
      <header>
        <Title text={`Heap: ${short(d.old_name)} \u2192 ${short(d.new_name)}`} full={`${d.old_name} \u2192 ${d.new_name}`} colours={colours} />
        {[d.old, d.new].map((f, i) => !f.verified && <p key={i} class="warnings">The {i ? "new" : "old"} heap is not verified: {f.reason}. What follows is incomplete.</p>)}
        <div class="table-box"><table class="plain" id="figures">
          <thead><tr>{["Change", "Old", "New"].map((c) => <th key={c} class="number" scope="col">{c}</th>)}<th scope="col">Figure</th></tr></thead>
          <tbody>{figures.map(([id, text, of]) => {
            const [a, b] = [of(d.old), of(d.new)];
            return a !== undefined && b !== undefined && <tr key={id}><td class="number" id={id} data-exact={b - a}>{signed(b - a, bytes)}</td><td class="number">{bytes(a)}</td><td class="number">{bytes(b)}</td><td>{text}</td></tr>;
          })}</tbody>
        </table></div>
      </header>
      <Section id="by-root" title="Roots" question="what would be freed if they let go, most grown first"><Rows<Change> id="roots" rows={byGrowth(d.roots)} columns={[change("Change", grown, bytes), size("Old", (c) => c.old_retained_bytes), size("New", (c) => c.new_retained_bytes),
        change("Blocks", (c) => (c.new_retained_blocks ?? 0) - (c.old_retained_blocks ?? 0), count), { name: "Root", show: (c) => `${c.kind} ${c.root}${c.module ? ` (${c.module})` : ""}` }]} /></Section>
      <Section id="by-type" title="Types" question="what they retain, and their own bytes"><Rows<Change> id="types" rows={byGrowth(d.types)} columns={[change("Change", grown, bytes), size("Old", (c) => c.old_retained_bytes), size("New", (c) => c.new_retained_bytes),
        change("Own", (c) => (c.new_bytes ?? 0) - (c.old_bytes ?? 0), bytes), change("Blocks", (c) => (c.new_blocks ?? 0) - (c.old_blocks ?? 0), count), { name: "Type", show: (c) => c.type! }]} /></Section>
      <footer class="muted small">This page needs nothing but itself. 'mallow heap --diff --json' has the same figures.</footer>
    </main>
  );
}
