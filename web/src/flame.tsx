/** The flame graph: one canvas, drawn again whenever what it shows changes; mouse and keyboard. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cleared } from "./canvas";
import { themeNow, moduleColour } from "./colours";
import type { Process } from "./data";
import { functionKey, GAP, isInlined, isOwn, namesOf, searchText, matcher, specialName } from "./frames";
import { childrenOf, findPath, foundIn, pathOf, type Tree, type TreeNode } from "./tree";
import { exact, percent, plural } from "./units";

const ROW = 19;
const NARROW = 0.7; // px; what is narrower is not drawn

interface Props {
  id?: string; // of the canvas
  p: Process;
  tree: Tree;
  focus: string;
  search: string;
  icicle: boolean;
  byLine: boolean;
  what: string; // "live at the peak"
  human: (value: number) => string;
  dark: boolean;
  onFocus: (path: string) => void;
  /** Of a diff: how much more or less a frame has now, which decides its colour. */
  change?: { of: (n: TreeNode) => number; show: (v: number) => string };
  onFunction?: (key: string) => void; // callers and callees are asked for
}

interface Drawn {
  node: TreeNode;
  x: number;
  y: number;
  w: number;
}

export function nodeLabel(p: Process, n: TreeNode, byLine: boolean): string {
  if (!n.parent && n.frame < 0) return "everything";
  if (n.frame < 0) return specialName(n.frame);
  const names = namesOf(p);
  const place = byLine ? names.place(n.frame) : "";
  return names.fn(n.frame) + (isInlined(p, n.frame) ? " [inlined]" : "") + (place ? ` ${place}` : "");
}

/** The nodes that are wide enough, left to right, when `focus` fills the width. */
function layout(tree: Tree, focus: TreeNode, width: number, icicle: boolean): { drawn: Drawn[]; hidden: number; rows: number } {
  const { root } = tree;
  const drawn: Drawn[] = [];
  let hidden = 0;
  let rows = 0;
  const scale = root.value / (focus.value || 1);
  for (let up: TreeNode | null = focus.parent; up; up = up.parent) drawn.push({ node: up, x: 0, y: 0, w: width });
  const stack = [focus];
  for (let n = stack.pop(); n; n = stack.pop()) {
    const w = (n.value / (root.value || 1)) * scale * width;
    if (w < NARROW) {
      hidden++;
      continue;
    }
    drawn.push({ node: n, x: (n.left - focus.left) * scale * width, y: 0, w });
    rows = Math.max(rows, n.depth + 1);
    for (const c of childrenOf(tree, n)) stack.push(c);
  }
  for (const d of drawn) d.y = (icicle ? d.node.depth : rows - 1 - d.node.depth) * ROW;
  return { drawn, hidden, rows };
}

export function Flame(props: Props) {
  const { id = "flame", p, tree, search, icicle, byLine, human, dark, change, onFocus } = props;
  const { root } = tree;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<{ node: TreeNode; x: number; y: number } | null>(null);
  const [picked, setPicked] = useState<string | null>(null); // by keyboard
  const names = useMemo(() => namesOf(p), [p]);
  const focus = useMemo(() => findPath(tree, props.focus), [tree, props.focus]);
  const { drawn, hidden, rows } = useMemo(() => layout(tree, focus, width, icicle), [tree, focus, width, icicle]);
  const test = useMemo(() => matcher(search), [search]);
  const hit = useMemo(() => {
    const known = new Map<number, boolean>();
    return (frame: number) => {
      if (!test || frame < 0) return false;
      let found = known.get(frame);
      if (found === undefined) known.set(frame, (found = test(searchText(names, frame))));
      return found;
    };
  }, [test, p, names]);
  const result = useMemo(() => (test ? foundIn(tree, focus, hit, (f) => f === GAP) : null), [tree, test, hit, focus]);
  const pickedNode = picked === null ? null : findPath(tree, picked);
  // The bitmap never shrinks, and the canvas shows its top: a bitmap of another size costs the browser more than the drawing.
  const shown = rows * ROW + 1;
  const largest = useRef(0);
  const height = (largest.current = Math.max(largest.current, shown));

  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);

  useEffect(() => {
    const c = canvas.current;
    if (!c || !width) return;
    const g = cleared(c, width, height);
    if (!g) return;
    const theme = themeNow();
    g.font = `12px ${getComputedStyle(c).fontFamily}`;
    g.textBaseline = "middle";
    for (const { node, x, y, w } of drawn) {
      const own = node.frame >= 0 && isOwn(p, node.frame);
      const above = node.depth < focus.depth;
      if (test && hit(node.frame)) g.fillStyle = theme.found;
      else if (node.frame < 0) g.fillStyle = theme.line;
      else if (change) g.fillStyle = theme.line;
      else g.fillStyle = moduleColour(own, names.module(node.frame), (node.frame * 7) % 3 - 1, dark);
      g.globalAlpha = above ? 0.5 : test && !hit(node.frame) ? 0.45 : 1;
      g.fillRect(x + 0.25, y + 0.5, Math.max(w - 0.5, 0.5), ROW - 1);
      if (change && node.value > 0 && !(test && hit(node.frame))) {
        const share = change.of(node) / node.value;
        g.fillStyle = share > 0 ? theme.rss : theme.live;
        g.globalAlpha *= Math.abs(share) * 0.6;
        g.fillRect(x + 0.25, y + 0.5, Math.max(w - 0.5, 0.5), ROW - 1);
      }
      g.globalAlpha = 1;
      if (w > 28) {
        g.save();
        g.beginPath();
        g.rect(x, y, w - 3, ROW);
        g.clip();
        g.fillStyle = test && hit(node.frame) ? "#111" : theme.text;
        const label = nodeLabel(p, node, byLine);
        const share = w > 180 && change ? `  ${change.show(change.of(node))}` : w > 180 && node.frame >= 0 ? `  ${percent(node.value, above ? root.value : focus.value)}` : "";
        g.fillText(label + share, x + 4, y + ROW / 2 + 1);
        g.restore();
      }
      if (node === pickedNode) {
        g.strokeStyle = theme.focus;
        g.lineWidth = 2;
        g.strokeRect(x + 1, y + 1.5, Math.max(w - 2, 1), ROW - 3);
      }
    }
  }, [drawn, width, height, test, hit, dark, byLine, pickedNode, focus, p, names, tree, change]);

  /** The root is in view at first, where that is at the bottom, too. */
  useEffect(() => {
    const scrolled = box.current;
    if (scrolled) scrolled.scrollTop = icicle ? 0 : scrolled.scrollHeight;
  }, [icicle, rows]);

  const at = (event: MouseEvent): Drawn | null => {
    const rect = canvas.current!.getBoundingClientRect();
    const x = event.clientX - rect.left;
    const y = event.clientY - rect.top;
    for (let i = drawn.length - 1; i >= 0; i--) {
      const d = drawn[i];
      if (x >= d.x && x < d.x + d.w && y >= d.y && y < d.y + ROW) return d;
    }
    return null;
  };

  const zoom = (n: TreeNode) => {
    setHover(null);
    onFocus(pathOf(tree, n));
  };

  const onKey = (event: KeyboardEvent) => {
    const now = pickedNode ?? focus;
    let next: TreeNode | null | undefined;
    const deeper = icicle ? "ArrowDown" : "ArrowUp";
    const outer = icicle ? "ArrowUp" : "ArrowDown";
    const siblings = now.parent ? childrenOf(tree, now.parent) : [];
    if (event.key === deeper) next = childrenOf(tree, now)[0];
    else if (event.key === outer) next = now.parent;
    else if (event.key === "ArrowRight") next = siblings[siblings.indexOf(now) + 1];
    else if (event.key === "ArrowLeft") next = siblings[siblings.indexOf(now) - 1];
    else if (event.key === "Enter" || event.key === " ") zoom(now);
    else if (event.key === "Escape") {
      setPicked(null);
      zoom(root);
    } else return;
    event.preventDefault();
    if (next) setPicked(pathOf(tree, next));
  };

  const ofFocus = (n: TreeNode) => (focus !== root && focus.depth <= n.depth ? `, ${percent(n.value, focus.value)} of the focus` : "");
  const describe = (n: TreeNode) =>
    `${nodeLabel(p, n, byLine)}: ${human(n.value)}, ${percent(n.value, root.value)} of ${root.frame < 0 ? props.what : "it"}${ofFocus(n)}`;
  const crumbs: TreeNode[] = [];
  for (let n: TreeNode | null = focus; n; n = n.parent) crumbs.unshift(n);

  return (
    <div class="flame">
      <div class="crumbs" aria-label="What the flame graph is focused on">
        {crumbs.length > 1 && <button class="quiet" id={`${id}-reset`} onClick={() => zoom(root)} title="Show everything again (Escape)">⟲ {root.frame < 0 ? "everything" : "all"}</button>}
        {crumbs.slice(1).slice(-4).map((n) => <button class="quiet crumb" key={pathOf(tree, n)} onClick={() => zoom(n)}>{nodeLabel(p, n, false)}</button>)}
        {props.onFunction && focus.frame >= 0 && focus.parent && <button class="quiet link" id={`${id}-function`} onClick={() => props.onFunction!(functionKey(p, focus.frame))}
          title="All that leads to this function, and all that it calls, wherever it was called">callers and callees of {names.fn(focus.frame)}</button>}
        {result && <span class="found" id={`${id}-found`} data-exact={result.found}>
          “{search}” is in {result.perhaps > 0 && "at least "}{human(result.found)}, {percent(result.found, focus.value) || "0 %"} of what is shown
          {result.perhaps > 0 && <>; {human(result.perhaps)} more have frames that were left out</>}
        </span>}
      </div>
      <div ref={box} class="flame-box">
        <canvas ref={canvas} class="frames" tabIndex={0} role="img" id={id} style={{ width: `${width}px`, height: `${shown}px` }}
          aria-label={`Flame graph of ${props.what}, ${human(root.value)}. Arrow keys move, Enter focuses, Escape shows everything. ${pickedNode ? describe(pickedNode) : ""}`}
          onMouseMove={(e) => {
            const d = at(e);
            setHover(d ? { node: d.node, x: e.clientX, y: e.clientY } : null);
          }}
          onMouseLeave={() => setHover(null)}
          onClick={(e) => {
            const d = at(e);
            if (d) zoom(d.node);
          }}
          onKeyDown={onKey} onBlur={() => setPicked(null)} />
      </div>
      {root.value === 0 && <p class="muted">Nothing here: {props.what} is 0 in this view.</p>}
      <p class="muted small" role="status">
        {pickedNode ? describe(pickedNode)
          : <>Click a frame to focus on it. {hidden > 0 && `${plural(hidden, "frame")} narrower than a pixel ${hidden === 1 ? "is" : "are"} not drawn at this width, but counted.`}</>}
      </p>
      {hover && <Tip x={hover.x} y={hover.y}>
        <b>{nodeLabel(p, hover.node, false)}</b>
        {hover.node.frame >= 0 && <div class="muted">{[names.place(hover.node.frame), names.module(hover.node.frame)].filter(Boolean).join(" · ")}</div>}
        {change ? <div><b>{change.show(change.of(hover.node))}</b> <span class="muted">({exact(change.of(hover.node))}); {human(hover.node.value)} changed</span></div>
          : <div>{human(hover.node.value)} <span class="muted">({exact(hover.node.value)})</span></div>}
        <div>{percent(hover.node.value, root.value)} of {root.frame < 0 ? props.what : nodeLabel(p, root, false)}{ofFocus(hover.node)}</div>
        {hover.node.children && hover.node.self > 0 && hover.node.self < hover.node.value && <div class="muted">{human(hover.node.self)} of it directly</div>}
      </Tip>}
    </div>
  );
}

export function Tip({ x, y, children }: { x: number; y: number; children: preact.ComponentChildren }) {
  const right = x > window.innerWidth * 0.6;
  const below = y < window.innerHeight * 0.7;
  return (
    <div class="tip" style={{
      left: right ? "auto" : `${x + 14}px`, right: right ? `${window.innerWidth - x + 14}px` : "auto",
      top: below ? `${y + 14}px` : "auto", bottom: below ? "auto" : `${window.innerHeight - y + 14}px`,
    }}>{children}</div>
  );
}
