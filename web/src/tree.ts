/** A tree of callers (or callees) for the flame graph, from the figures of groups. */
import type { Process } from "./data";
import { foldedSites, isOwn, isWrapper, stackOf } from "./frames";

export interface TreeOptions {
  reversed: boolean; // innermost frames at the root
  hideLibraries: boolean; // only frames of the program itself
  hideWrappers: boolean; // without malloc, operator new and the like
  byLine: boolean; // the same function at two lines is two frames
}

export interface TreeNode {
  key: string;
  frame: number; // -1: the root; -2: folded sites; -3: hidden altogether
  folded: number; // sites, of frame -2
  value: number;
  self: number;
  depth: number;
  left: number; // of the width of everything, 0..1
  parent: TreeNode | null;
  children: TreeNode[];
  index: Map<string, TreeNode>;
}

function node(key: string, frame: number, parent: TreeNode | null): TreeNode {
  return { key, frame, folded: 0, value: 0, self: 0, depth: parent ? parent.depth + 1 : 0, left: 0, parent, children: [], index: new Map() };
}

function child(parent: TreeNode, key: string, frame: number): TreeNode {
  let found = parent.index.get(key);
  if (!found) {
    found = node(key, frame, parent);
    parent.index.set(key, found);
    parent.children.push(found);
  }
  return found;
}

function keyOf(p: Process, frame: number, byLine: boolean): string {
  const { frames } = p.page;
  return byLine ? `${frame}` : `${frames.function[frame]}-${frames.module[frame]}`;
}

/** values[group]: what is drawn; groups of 0 or less are left out. */
export function buildTree(p: Process, values: ArrayLike<number>, options: TreeOptions): TreeNode {
  const root = node("", -1, null);
  const keys: string[] = [];
  for (let g = 0; g < values.length; g++) {
    const value = values[g];
    if (!(value > 0)) continue;
    let frames = stackOf(p, g);
    if (options.hideWrappers) {
      const site = frames.findIndex((f) => !isWrapper(p, f));
      if (site > 0) frames = frames.slice(site);
    }
    if (options.hideLibraries) frames = frames.filter((f) => isOwn(p, f));
    if (!options.reversed) frames.reverse();
    const folded = foldedSites(p, g);
    let at = root;
    root.value += value;
    const enter = (key: string, frame: number) => {
      at = child(at, key, frame);
      at.value += value;
    };
    if (folded && options.reversed) enter(folded < 0 ? "gone" : "folded", -2);
    if (!folded && frames.length === 0) enter("hidden", -3);
    for (const f of frames) enter((keys[f] ??= keyOf(p, f, options.byLine)), f);
    if (folded && !options.reversed) enter(folded < 0 ? "gone" : "folded", -2);
    if (at.frame === -2) at.folded = folded < 0 ? -1 : at.folded + folded;
    at.self += value;
  }
  place(root);
  return root;
}

/** Largest first, and where each begins. */
function place(root: TreeNode): void {
  const stack = [root];
  const whole = root.value || 1;
  for (let n = stack.pop(); n; n = stack.pop()) {
    n.children.sort((a, b) => b.value - a.value || (a.key < b.key ? -1 : 1));
    let left = n.left;
    for (const c of n.children) {
      c.left = left;
      left += c.value / whole;
      stack.push(c);
    }
  }
}

export function pathOf(n: TreeNode): string {
  const keys: string[] = [];
  for (let at: TreeNode | null = n; at?.parent; at = at.parent) keys.push(at.key);
  return keys.reverse().join(".");
}

/** The node at a path; as far as the path leads. */
export function findPath(root: TreeNode, path: string): TreeNode {
  let at = root;
  if (path) for (const key of path.split(".")) {
    const next = at.index.get(key);
    if (!next) break;
    at = next;
  }
  return at;
}
