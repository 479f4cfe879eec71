/**
 * A tree of callers (or callees) for the flame graph, from the figures of groups. Children are made when
 * they are asked for, which is where a node is wide enough to be drawn: a page can hold a million frames.
 */
import type { Process } from "./data";
import { functionKey, GAP, HIDDEN, isOwn, siteFrame, stackOf } from "./frames";

export interface TreeOptions {
  reversed: boolean; // innermost frames at the root
  hideLibraries: boolean; // only frames of the program itself
  hideWrappers: boolean; // without malloc, operator new and the like
  byLine: boolean; // the same function at two lines is two frames
}

export interface TreeNode {
  frame: number; // -1: the root; below: see frames.ts
  value: number;
  self: number; // known once the children are
  depth: number;
  left: number; // of the width of everything, 0..1
  parent: TreeNode | null;
  groups: ArrayLike<number>; // those that pass here, with a value
  children: TreeNode[] | null; // null: not made yet
}

/** The frames of all groups in the order of drawing, the root's first: of group g, [first[g], first[g + 1]). */
export interface Stacks {
  first: Uint32Array;
  frames: Int32Array;
}

export interface Tree {
  p: Process;
  stacks: Stacks;
  same: Int32Array; // [frames] the first frame that counts as the same
  byLine: boolean;
  values: ArrayLike<number>;
  root: TreeNode;
  child: (TreeNode | undefined)[]; // [frames] the child made last for it: quicker to find than in a map a node
}

const madeStacks = new WeakMap<Process, Map<string, Stacks>>();
const madeSame = new WeakMap<Process, Map<boolean, Int32Array>>();

function remembered<K, V>(all: WeakMap<Process, Map<K, V>>, p: Process, key: K, make: () => V): V {
  let of = all.get(p);
  if (!of) all.set(p, (of = new Map<K, V>()));
  let found = of.get(key);
  if (found === undefined) of.set(key, (found = make()));
  return found;
}

export function stacksOf(p: Process, { reversed, hideLibraries, hideWrappers }: Omit<TreeOptions, "byLine">): Stacks {
  return remembered(madeStacks, p, `${reversed} ${hideLibraries} ${hideWrappers}`, () => {
    const groups = p.page.groups.tip.length;
    const first = new Uint32Array(groups + 1);
    const frames: number[] = [];
    for (let g = 0; g < groups; g++) {
      let stack = stackOf(p, g);
      if (hideWrappers) {
        const site = stack.indexOf(siteFrame(p, g));
        if (site > 0) stack = stack.slice(site);
      }
      if (hideLibraries) stack = stack.filter((f) => f < 0 || isOwn(p, f));
      if (!stack.length) stack = [HIDDEN];
      if (!reversed) stack.reverse();
      for (const f of stack) frames.push(f);
      first[g + 1] = frames.length;
    }
    return { first, frames: Int32Array.from(frames) };
  });
}

/** Frames that are drawn as one: those of the same function, unless lines are told apart. */
function sameFrames(p: Process, byLine: boolean): Int32Array {
  return remembered(madeSame, p, byLine, () => {
    const { function: fn, module } = p.page.frames;
    const same = new Int32Array(fn.length);
    const known = new Map<number, number>();
    for (let f = 0; f < fn.length; f++) {
      const key = byLine ? f : fn[f] * p.page.texts.length + module[f];
      let to = known.get(key);
      if (to === undefined) known.set(key, (to = f));
      same[f] = to;
    }
    return same;
  });
}

function node(frame: number, parent: TreeNode | null, groups: ArrayLike<number>): TreeNode {
  return { frame, value: 0, self: 0, depth: parent ? parent.depth + 1 : 0, left: 0, parent, groups, children: null };
}

/** values[group]: what is drawn; groups of 0 or less are left out. */
export function buildTree(p: Process, values: ArrayLike<number>, options: TreeOptions): Tree {
  const groups: number[] = [];
  const root = node(-1, null, groups);
  for (let g = 0; g < values.length; g++)
    if (values[g] > 0) {
      groups.push(g);
      root.value += values[g];
    }
  return { p, stacks: stacksOf(p, options), same: sameFrames(p, options.byLine), byLine: options.byLine, values, root, child: [] };
}

/** The children of a node, largest first. */
export function childrenOf(t: Tree, n: TreeNode): TreeNode[] {
  if (n.children) return n.children;
  const { first, frames } = t.stacks;
  const found: TreeNode[] = [];
  const special = new Map<number, TreeNode>();
  n.self = 0;
  for (let i = 0; i < n.groups.length; i++) {
    const g = n.groups[i];
    const at = first[g] + n.depth;
    if (at >= first[g + 1]) {
      n.self += t.values[g];
      continue;
    }
    const frame = frames[at] < 0 ? frames[at] : t.same[frames[at]];
    let child = frame < 0 ? special.get(frame) : t.child[frame];
    if (!child || child.parent !== n) { // what another node left there
      found.push((child = node(frame, n, [])));
      if (frame < 0) special.set(frame, child);
      else t.child[frame] = child;
    }
    (child.groups as number[]).push(g);
    child.value += t.values[g];
  }
  n.children = found.sort((a, b) => b.value - a.value || a.frame - b.frame);
  let left = n.left;
  for (const c of n.children) {
    c.left = left;
    left += c.value / (t.root.value || 1);
  }
  return n.children;
}

/** What a node is called in the address of the page. */
function keyOf(t: Tree, frame: number): string {
  const { frames } = t.p.page;
  return frame < 0 ? `x${-frame}` : t.byLine ? `${frame}` : `${frames.function[frame]}-${frames.module[frame]}`;
}

export function pathOf(t: Tree, n: TreeNode): string {
  const keys: string[] = [];
  for (let at: TreeNode = n; at.parent; at = at.parent) keys.push(keyOf(t, at.frame));
  return keys.reverse().join(".");
}

/** The node at a path; as far as the path leads. */
export function findPath(t: Tree, path: string): TreeNode {
  let at = t.root;
  if (path) for (const key of path.split(".")) {
    const next = childrenOf(t, at).find((c) => keyOf(t, c.frame) === key);
    if (!next) break;
    at = next;
  }
  return at;
}

/** How much of a node passes through a frame for which `hit` says so, each byte once; and how much may, in frames that were left out. */
export function foundIn(t: Tree, n: TreeNode, hit: (frame: number) => boolean, isGap: (frame: number) => boolean): { found: number; perhaps: number } {
  const { first, frames } = t.stacks;
  let found = 0;
  let perhaps = 0;
  for (let i = 0; i < n.groups.length; i++) {
    const g = n.groups[i];
    let gap = false;
    let yes = false;
    for (let at = first[g] + Math.max(0, n.depth - 1); at < first[g + 1] && !yes; at++) {
      gap ||= isGap(frames[at]);
      yes = frames[at] >= 0 && hit(frames[at]);
    }
    if (yes) found += t.values[g];
    else if (gap) perhaps += t.values[g];
  }
  return { found, perhaps };
}

/** Trees that begin at a function: of its callers and of its callees. In a recursion, its outermost frame counts. */
export interface Through {
  callers: Tree;
  callees: Tree;
  total: number;
  self: number; // in its own frame, whatever calls it
  perhaps: number; // of stacks in which it may be among the frames that were left out
}

export function throughFunction(p: Process, values: ArrayLike<number>, options: TreeOptions, fn: string): Through {
  const { first, frames } = stacksOf(p, { ...options, reversed: false });
  const same = sameFrames(p, options.byLine);
  const is = new Uint8Array(p.page.frames.function.length);
  for (let f = 0; f < is.length; f++) is[f] = functionKey(p, f) === fn ? 1 : 0;
  const groups = values.length;
  const up = { first: new Uint32Array(groups + 1), frames: [] as number[] };
  const down = { first: new Uint32Array(groups + 1), frames: [] as number[] };
  const members: number[] = [];
  let total = 0;
  let self = 0;
  let perhaps = 0;
  for (let g = 0; g < groups; g++) {
    if (values[g] > 0) {
      let at = first[g];
      let gap = false;
      while (at < first[g + 1] && !(frames[at] >= 0 && is[frames[at]])) gap = frames[at++] === GAP || gap;
      if (at < first[g + 1]) {
        members.push(g);
        total += values[g];
        for (let i = at - 1; i >= first[g]; i--) up.frames.push(frames[i]);
        for (let i = at + 1; i < first[g + 1]; i++) down.frames.push(frames[i]);
        const last = frames[first[g + 1] - 1];
        if (last >= 0 && is[last]) self += values[g];
      } else if (gap) perhaps += values[g];
    }
    up.first[g + 1] = up.frames.length;
    down.first[g + 1] = down.frames.length;
  }
  const tree = (stacks: { first: Uint32Array; frames: number[] }): Tree => {
    const root = node(is.indexOf(1), null, members);
    root.value = total;
    return { p, stacks: { first: stacks.first, frames: Int32Array.from(stacks.frames) }, same, byLine: options.byLine, values, root, child: [] };
  };
  return { callers: tree(up), callees: tree(down), total, self, perhaps };
}
