/** Names of frames, and the stacks of groups. */
import { plural } from "./units";
import { CUT, INLINED, OWN, WRAPPER, type Process } from "./data";

export interface Names {
  fn(frame: number): string;
  module(frame: number): string;
  place(frame: number): string; // file:line, "" when unknown
  flags(frame: number): number;
}

export function namesOf(p: Process): Names {
  const { frames, texts } = p.page;
  return {
    fn: (f) => texts[frames.function[f]],
    module: (f) => texts[frames.module[f]],
    place: (f) => {
      const file = texts[frames.file[f]];
      return file ? (frames.line[f] ? `${file}:${frames.line[f]}` : file) : "";
    },
    flags: (f) => frames.flags[f],
  };
}

export function isOwn(p: Process, frame: number): boolean {
  return (p.page.frames.flags[frame] & OWN) !== 0;
}
export function isWrapper(p: Process, frame: number): boolean {
  return (p.page.frames.flags[frame] & WRAPPER) !== 0;
}
export function isInlined(p: Process, frame: number): boolean {
  return (p.page.frames.flags[frame] & INLINED) !== 0;
}
export function isCut(p: Process, frame: number): boolean {
  return (p.page.frames.flags[frame] & CUT) !== 0;
}

/** Frames of a group, innermost first. */
export function stackOf(p: Process, group: number): number[] {
  const stack: number[] = [];
  for (let node = p.page.groups.tip[group]; node; node = p.caller[node]) stack.push(p.frame[node]);
  return stack;
}

/** The frame that a person calls the call site: the innermost that is not machinery of allocation. */
export function siteFrame(p: Process, group: number): number {
  let first = -1;
  for (let node = p.page.groups.tip[group]; node; node = p.caller[node]) {
    if (first < 0) first = p.frame[node];
    if (!isWrapper(p, p.frame[node])) return p.frame[node];
  }
  return first;
}

/**
 * How many sites a group stands for, when they were folded; 0 for a site by itself; -1 for what was
 * inherited from a parent process and gone before the peak, which is of no site.
 */
export function foldedSites(p: Process, group: number): number {
  const folded = p.page.groups.folded[group];
  return folded ? folded - 1 || -1 : 0;
}

/** What folded sites are called. */
export function foldedName(folded: number): string {
  return folded < 0 ? "(inherited, and gone before the peak)" : `(${plural(folded, "smaller call site")})`;
}

/** Text that frames are searched in. */
export function searchText(names: Names, frame: number): string {
  return `${names.fn(frame)} ${names.place(frame)} ${names.module(frame)}`;
}

/** A test for frames from what was typed: /regex/ or a part of the text, in any case. Null: nothing was typed. */
export function matcher(query: string): ((text: string) => boolean) | null {
  const q = query.trim();
  if (!q) return null;
  const regex = /^\/(.+)\/$/.exec(q);
  if (regex) {
    try {
      const r = new RegExp(regex[1], "i");
      return (text) => r.test(text);
    } catch {
      return () => false;
    }
  }
  const lower = q.toLowerCase();
  return (text) => text.toLowerCase().includes(lower);
}
