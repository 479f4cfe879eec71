/** Names of frames, and the stacks of groups. */
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

/** Frames that are none: -1 is the root of a tree. */
export const GAP = -2; // frames that were left out, between the callers and the call site
export const HIDDEN = -3; // all frames are hidden
export const OTHER = -4; // several call sites
export const GONE = -5; // inherited from a parent process and gone before the peak: of no call site

/** The call site of a group: the innermost frame that is not machinery of allocation; OTHER, GONE, or -1 without a stack. */
export function siteFrame(p: Process, group: number): number {
  const { site, folded } = p.page.groups;
  return site[group] > 0 ? site[group] - 1 : site[group] < 0 ? OTHER : folded[group] === 1 ? GONE : -1;
}

/** How many call stacks a group stands for. */
export function stackCount(p: Process, group: number): number {
  const folded = p.page.groups.folded[group];
  return folded ? folded - 1 : 1;
}

export function isFolded(p: Process, group: number): boolean {
  return p.page.groups.folded[group] !== 0;
}

/** Frames of a group, innermost first. Of a folded one, the call site, and the callers that all its stacks have in common. */
export function stackOf(p: Process, group: number): number[] {
  const stack: number[] = [];
  for (let node = p.page.groups.tip[group]; node; node = p.caller[node]) stack.push(p.frame[node]);
  if (!isFolded(p, group)) return stack;
  const site = siteFrame(p, group);
  if (site === GONE) return [GONE];
  return p.page.groups.gap[group] ? [site, GAP, ...stack] : stack;
}

/** What a frame that is none is called. */
export function specialName(frame: number): string {
  return frame === GAP ? "⋯ frames left out" : frame === HIDDEN ? "(no frame of the program itself)" : frame === OTHER ? "(smaller call sites)"
    : frame === GONE ? "(inherited, and gone before the peak)" : "(no stack recorded)";
}

/** A function as the address of the page names it, whatever the line. */
export function functionKey(p: Process, frame: number): string {
  return `${p.page.frames.function[frame]}-${p.page.frames.module[frame]}`;
}

/** Text that frames are searched in. */
export function searchText(names: Names, frame: number): string {
  if (frame < 0) return specialName(frame);
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
