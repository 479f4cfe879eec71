/** The page of `mallow heap`: who holds the blocks of a process, of which types they are, what nothing reaches. */
import { useMemo, useState } from "preact/hooks";
import { Section, Title, useColours, useReady } from "./shell";
import { bytes, count, duration, exact, percent } from "./units";

interface Row {
  type?: string;
  root?: string;
  kind?: string;
  module?: string;
  /** Of a variable: where it is declared, and as what. */
  file?: string;
  line?: number;
  declared_type?: string;
  blocks?: number;
  bytes?: number;
  reached_bytes?: number;
  retained_bytes: number;
  retained_blocks: number;
  oldest_age_ns?: number;
}

interface Frame {
  function: string;
  file?: string;
  line?: number;
}

interface Unreachable {
  bytes: number;
  blocks: number;
  type: string;
  address: string;
  frames?: Frame[];
}

interface Site {
  frames: Frame[];
  blocks: number;
  bytes: number;
  retained_bytes: number;
  unreachable_bytes?: number;
}

interface Pin {
  type?: string;
  root?: string;
  kind?: string;
  module?: string;
  blocks: number;
  free_bytes: number;
}

/** Place of a group, address, bytes. */
type Hop = [number, number, number];
/** How many there are, and those that are shown. */
type Hops = [number, ...Hop[]];
/** Place of a group, references, blocks. */
type Link = [number, number, number];

export interface HeapDocument {
  target: string;
  pid: number;
  source: string;
  stopped_ns: number;
  verified: boolean;
  reason?: string;
  note?: string;
  allocator: string;
  blocks: number;
  used_bytes: number;
  free_bytes: number;
  trimmable_bytes: number;
  pinned_free_bytes: number;
  cached_bytes: number;
  overhead_bytes: number;
  garbage_bytes?: number;
  unreachable_bytes?: number;
  types: Row[];
  roots: Row[];
  sites?: Site[];
  pinning: Pin[];
  unreachable?: Unreachable[];
  /** Parent (-1: none), retained bytes, own bytes, name. A holder stands before what it holds. */
  tree: [number, number, number, string][];
  /** Neighboring pieces of the address space: the address of the first, and the used bytes of each. */
  /** The way to each of the tree, the root first, and what refers to each. */
  tree_ways: Hops[];
  tree_referrers: Hops[];
  /** Groups have places: the rows of types, those of roots, then these names. */
  others: string[];
  /** By place. */
  referred_by: Link[][];
  refers_to: Link[][];
  /** By place of a type: the way to its block that retains most. */
  type_ways: Hops[];
  pinning_roots: Pin[];
  map: { cell_bytes: number; runs: [string, ...number[]][] };
}

const nameOfRoot = (r: { root?: string; kind?: string; module?: string }) => `${r.kind ? `${r.kind} ` : ""}${r.root}${r.module ? ` (${r.module})` : ""}`;

function nameAt(d: HeapDocument, place: number): string {
  const root = place - d.types.length;
  if (root < 0) return d.types[place]?.type ?? "?";
  return root < d.roots.length ? nameOfRoot(d.roots[root]) : d.others[root - d.roots.length] ?? "?";
}

/** Whether there is more to see of a group than its name. */
const isKnown = (d: HeapDocument, place: number) => place >= 0 && place < d.types.length + d.roots.length;
const hex = (n: number) => `0x${n.toString(16)}`;

/** The name of a group, which leads to it. */
function Group({ d, place, go }: { d: HeapDocument; place: number; go: (place: number) => void }) {
  const name = nameAt(d, place);
  return isKnown(d, place) ? <button class="small" data-place={place} onClick={() => go(place)}>{name}</button> : <span>{name}</span>;
}

/** A way from a root, or referrers. */
function HopList({ d, hops, between, go }: { d: HeapDocument; hops: Hops; between: string; go: (place: number) => void }) {
  const [length, ...shown] = hops;
  const gap = length > shown.length ? (between === ", " ? shown.length : Math.floor(shown.length / 2)) : -1;
  const rest = <span class="muted">{`${count(length - shown.length)} more`}</span>;
  return (
    <span>{shown.map(([place, address, size], i) => (
      <span key={i}>{i > 0 && between}{i === gap && <>{rest}{between}</>}<Group d={d} place={place} go={go} />{size > 0 && <span class="muted"> {hex(address)}, {bytes(size)}</span>}</span>
    ))}{gap === shown.length && <>{between}{rest}</>}</span>
  );
}

interface Node {
  id: number;
  name: string;
  retained: number;
  parent: Node | null;
  children: Node[];
}

function treeOf(d: HeapDocument): Node {
  const top: Node = { id: -1, name: "all blocks", retained: d.used_bytes, parent: null, children: [] };
  const all: Node[] = [];
  for (const [parent, retained, , name] of d.tree) {
    const node: Node = { id: all.length, name, retained, parent: parent < 0 ? top : all[parent], children: [] };
    node.parent!.children.push(node);
    all.push(node);
  }
  for (const n of [top, ...all]) n.children.sort((a, b) => b.retained - a.retained);
  return top;
}

interface Box {
  node: Node;
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Rows of boxes, as square as they can be. Area that stays empty is the node's own, or too small to be seen. */
function boxesOf(node: Node, width: number, height: number): Box[] {
  const out: Box[] = [];
  let [x, y, w, h] = [0, 0, width, height];
  const scale = (w * h) / Math.max(node.retained, 1);
  const area = (n: Node) => n.retained * scale;
  let rest = node.children.filter((c) => area(c) > 12);
  while (rest.length && w > 1 && h > 1) {
    const side = Math.min(w, h);
    let [n, sum, worst] = [0, 0, Infinity];
    for (; n < rest.length; n++) {
      const edge = (sum + area(rest[n])) / side;
      const ratio = Math.max(...[rest[0], rest[n]].map((c) => Math.max(area(c) / (edge * edge), (edge * edge) / area(c))));
      if (ratio > worst) break;
      [sum, worst] = [sum + area(rest[n]), ratio];
    }
    const edge = Math.min(sum / side, Math.max(w, h));
    let at = 0;
    for (const c of rest.slice(0, n)) {
      const length = area(c) / edge;
      out.push(w >= h ? { node: c, x, y: y + at, w: edge, h: length } : { node: c, x: x + at, y, w: length, h: edge });
      at += length;
    }
    if (w >= h) [x, w] = [x + edge, w - edge];
    else [y, h] = [y + edge, h - edge];
    rest = rest.slice(n);
  }
  return out;
}

function Holders({ d, go }: { d: HeapDocument; go: (place: number) => void }) {
  const top = useMemo(() => treeOf(d), [d]);
  const [at, setAt] = useState(top);
  const [w, h] = [1000, 380];
  const path: Node[] = [];
  for (let n: Node | null = at; n; n = n.parent) path.unshift(n);
  return (
    <div>
      <p id="path">{path.map((n, i) => <span key={n.id}>{i > 0 && " \u203a "}<button class="small" onClick={() => setAt(n)}>{n.name}</button></span>)} <span class="muted">{bytes(at.retained)}</span></p>
      {at.id >= 0 && <p id="way" class="small">Way: <HopList d={d} hops={d.tree_ways[at.id]} between={" \u2192 "} go={go} />
        {d.tree_referrers[at.id][0] > 0 && <><br />Referred to by: <HopList d={d} hops={d.tree_referrers[at.id]} between=", " go={go} /></>}</p>}
      <div class="table-box"><svg id="treemap" viewBox={`0 0 ${w} ${h}`} role="img" aria-label={`What ${at.name} alone holds`}>
        {boxesOf(at, w, h).map((b) => (
          <g key={b.node.id} data-node={b.node.id} data-exact={b.node.retained} onClick={() => b.node.children.length && setAt(b.node)} class={b.node.children.length ? "holder" : ""}>
            <title>{`${b.node.name}\nretains ${exact(b.node.retained)} bytes, ${percent(b.node.retained, d.used_bytes)}`}</title>
            <rect x={b.x + 1} y={b.y + 1} width={Math.max(b.w - 2, 0)} height={Math.max(b.h - 2, 0)} />
            {b.w > 60 && b.h > 20 && <text x={b.x + 6} y={b.y + 16}>{b.node.name.slice(0, Math.floor(b.w / 7) - 1)}</text>}
            {b.w > 60 && b.h > 38 && <text x={b.x + 6} y={b.y + 32}>{bytes(b.node.retained)}</text>}
          </g>
        ))}
      </svg></div>
    </div>
  );
}

/** A square for each piece of the address space, darker where more of it is in use. */
function AddressSpace({ d }: { d: HeapDocument }) {
  const { cell_bytes: cell, runs } = d.map;
  const [side, columns] = [10, 100];
  let y = 0;
  const squares = runs.flatMap(([start, ...used]) => {
    const from = y;
    y += Math.ceil(used.length / columns) * side + 3;
    return used.map((n, i) => {
      const address = `0x${(BigInt(start) + BigInt(i) * BigInt(cell)).toString(16)}`;
      return (
        <rect key={address} data-exact={n} x={(i % columns) * side} y={from + Math.floor(i / columns) * side} width={side - 1} height={side - 1} fill-opacity={0.06 + (0.94 * n) / cell}>
          <title>{`${address}\n${exact(n)} of ${exact(cell)} bytes in use, ${percent(n, cell)}`}</title>
        </rect>
      );
    });
  });
  return <div class="table-box"><svg id="address-space" viewBox={`0 0 ${columns * side} ${Math.max(y, side)}`} role="img" aria-label="The memory of the heap by address">{squares}</svg></div>;
}

export interface Column<T> {
  name: string;
  show: (row: T) => string;
  exact?: (row: T) => number;
  /** Leads somewhere, by the number of the row. */
  go?: (index: number) => void;
}

/** A table of which more rows can be asked for. */
export function Rows<T>({ id, rows, columns }: { id: string; rows: T[]; columns: Column<T>[] }) {
  const [shown, setShown] = useState(20);
  return (
    <div class="table-box"><table class="plain" id={id}>
      <thead><tr>{columns.map((c) => <th key={c.name} class={c.exact ? "number" : ""} scope="col">{c.name}</th>)}</tr></thead>
      <tbody>{rows.slice(0, shown).map((r, i) => <tr key={i}>{columns.map((c) => <td key={c.name} class={c.exact ? "number" : ""} data-exact={c.exact?.(r)} title={c.exact ? exact(c.exact(r)) : ""}>{c.go ? <button class="small" onClick={() => c.go!(i)}>{c.show(r)}</button> : c.show(r)}</td>)}</tr>)}</tbody>
    </table>{shown < rows.length && <button class="small" onClick={() => setShown(shown * 5)}>{`${count(rows.length - shown)} more`}</button>}</div>
  );
}

function size<T>(name: string, of: (row: T) => number): Column<T> {
  return { name, show: (r) => bytes(of(r)), exact: of };
}

function number<T>(name: string, of: (row: T) => number): Column<T> {
  return { name, show: (r) => count(of(r)), exact: of };
}

/** One group: what refers to its blocks, what they refer to, and a way. */
function Links({ d, place, go }: { d: HeapDocument; place: number; go: (place: number) => void }) {
  const row = place < d.types.length ? d.types[place] : d.roots[place - d.types.length];
  const way = d.type_ways[place];
  const table = (id: string, title: string, links: Link[]) => links.length > 0 && (
    <div class="table-box"><h4>{title}</h4><table class="plain" id={id}>
      <thead><tr>{["References", "Blocks"].map((c) => <th key={c} class="number" scope="col">{c}</th>)}<th scope="col">Type or root</th></tr></thead>
      <tbody>{links.map(([other, references, blocks]) => <tr key={other}><td class="number" data-exact={references}>{count(references)}</td><td class="number" data-exact={blocks}>{count(blocks)}</td><td><Group d={d} place={other} go={go} /></td></tr>)}</tbody>
    </table></div>
  );
  return (
    <div id="group" data-place={place}>
      <p><b>{nameAt(d, place)}</b> <span class="muted">retains {bytes(row.retained_bytes)}</span></p>
      {way && way[0] > 0 && <p id="group-way" class="small">The way to its block that retains most: <HopList d={d} hops={way} between={" \u2192 "} go={go} /></p>}
      {table("referred-by", "Referred to by", d.referred_by[place])}
      {table("refers-to", "Refers to", d.refers_to[place])}
    </div>
  );
}

const declared = (r: Row) => (r.file ? ` ${r.file.split("/").pop()}:${r.line}` : "") + (r.declared_type ? ` ${r.declared_type}` : "");
const stackOf = (frames?: Frame[]) => (frames ?? []).slice(0, 6).map((f) => (f.file ? `${f.function} (${f.file.split("/").pop()}:${f.line})` : f.function)).join(" \u2190 ");

export function HeapPage({ d }: { d: HeapDocument }) {
  const colours = useColours();
  useReady(true);
  const [place, setPlace] = useState(0);
  const unreachable = d.unreachable ?? [];
  const go = (to: number) => {
    setPlace(to);
    document.getElementById("links")?.scrollIntoView({ block: "nearest" });
  };
  return (
    <main>
      <header>
        <Title text={`Heap of ${d.target.split("/").pop()}`} full={d.target} colours={colours} />
        <p class="muted">{d.pid > 0 && `pid ${d.pid}, `}{d.source}{d.stopped_ns > 0 && `, it stood still for ${duration(d.stopped_ns)}`}; allocator: {d.allocator}</p>
        {d.verified ? <p id="verified">Verified: all of it was read.</p> : <p id="verified" class="warnings">Not verified: {d.reason}. What follows is incomplete.</p>}
        {d.note && <p class="muted">{d.note}</p>}
        <p><b id="used" data-exact={d.used_bytes}>{bytes(d.used_bytes)}</b> in {count(d.blocks)} blocks; {bytes(d.free_bytes)} free, of which malloc_trim(0) would return <span id="trimmable" data-exact={d.trimmable_bytes}>{bytes(d.trimmable_bytes)}</span>,
          and {bytes(d.pinned_free_bytes)} share pages with blocks; {bytes(d.cached_bytes)} in caches; {bytes(d.overhead_bytes)} headers
          {d.unreachable_bytes !== undefined && <>; <b id="unreachable-bytes" data-exact={d.unreachable_bytes}>{bytes(d.unreachable_bytes)}</b> unreachable</>}{(d.garbage_bytes ?? 0) > 0 && `; ${bytes(d.garbage_bytes!)} garbage that Python's collector can free`}</p>
      </header>
      <Section id="who" title="Who holds it?" question="what would be freed if a holder let go; click to look into one"><Holders d={d} go={go} /></Section>
      {d.map.runs.length > 0 && <Section id="map" title="Where is it?" question={`the heap by address: a square is ${bytes(d.map.cell_bytes)}, a gap between rows is memory of others; the paler, the less of it is in use`}><AddressSpace d={d} /></Section>}
      <Section id="by-root" title="Roots"><Rows<Row> id="roots" rows={d.roots} columns={[size("Retained", (r) => r.retained_bytes), number("Blocks", (r) => r.retained_blocks), size("Reached first", (r) => r.reached_bytes ?? 0),
        { name: "Root", show: (r) => `${nameOfRoot(r)}${declared(r)}`, go: (i) => go(d.types.length + i) }]} /></Section>
      <Section id="by-type" title="Types"><Rows<Row> id="types" rows={d.types} columns={[size("Retained", (r) => r.retained_bytes), size("Own", (r) => r.bytes ?? 0), number("Blocks", (r) => r.blocks ?? 0), ...(d.types.some((t) => t.oldest_age_ns !== undefined) ? [{ name: "Oldest", show: (r: Row) => (r.oldest_age_ns === undefined ? "" : duration(r.oldest_age_ns)), exact: (r: Row) => r.oldest_age_ns ?? 0 }] : []), { name: "Type", show: (r) => r.type!, go }]} /></Section>
      {d.types.length > 0 && <Section id="links" title="Who refers to whom?" question="choose a type or a root in a table; each name leads on"><Links d={d} place={place} go={go} /></Section>}
      {d.sites && <Section id="by-site" title="Call sites"><Rows<Site> id="sites-of-heap" rows={d.sites} columns={[size("Retained", (r) => r.retained_bytes), size("Own", (r) => r.bytes), size("Unreachable", (r) => r.unreachable_bytes ?? 0), number("Blocks", (r) => r.blocks),
        { name: "Call site", show: (r) => stackOf(r.frames) || "not in the recording" }]} /></Section>}
      {unreachable.length > 0 && <Section id="lost" title="Unreachable" question="groups of blocks that nothing refers to any more"><Rows<Unreachable> id="unreachable" rows={unreachable} columns={[size("Bytes", (r) => r.bytes), number("Blocks", (r) => r.blocks),
        { name: "First block", show: (r) => r.address }, { name: "Type", show: (r) => r.type }, { name: "Allocated by", show: (r) => stackOf(r.frames) }]} /></Section>}
      {d.pinning.length > 0 && <Section id="free" title="Who keeps free memory?" question="free bytes on pages that also hold blocks, by the type of those"><Rows<Pin> id="pinning" rows={d.pinning} columns={[size("Free bytes", (r) => r.free_bytes), number("Blocks", (r) => r.blocks), { name: "Type", show: (r) => r.type! }]} /><Rows<Pin> id="pinning-roots" rows={d.pinning_roots} columns={[size("Free bytes", (r) => r.free_bytes), number("Blocks", (r) => r.blocks), { name: "Root that reaches them first", show: nameOfRoot }]} /></Section>}
      <footer class="muted small">This page needs nothing but itself. 'mallow heap --json' has the same figures.</footer>
    </main>
  );
}
