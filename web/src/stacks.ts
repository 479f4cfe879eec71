/** Call stacks of a JSON document as the flame graph wants them: a group for each, in their order. */
import { INLINED, KNOWN, WRAPPER, type Process } from "./data";

export interface DocumentFrame {
  function: string;
  file: string;
  line: number;
  module: string;
  inlined: boolean;
  wrapper?: boolean; // machinery of allocation
}

export interface DocumentStack {
  frames: DocumentFrame[]; // innermost first
  call_site?: number; // which of them; without it: the first that is no wrapper
  omitted_frames?: number; // so many are not there, behind the first omitted_after
  omitted_after?: number;
}

/** Which frame is the call site; -1: no frame is known. */
export function callSite(s: DocumentStack): number {
  return s.frames.length ? Math.min(s.frames.length - 1, Math.max(0, s.call_site ?? s.frames.findIndex((f) => !f.wrapper))) : -1;
}

/** All frames, with one for those that are not there. */
export function wholeStack(s: DocumentStack): DocumentFrame[] {
  if (!s.omitted_frames || s.omitted_after === undefined) return s.frames;
  const gap = { function: `⋯ ${s.omitted_frames} frames left out`, file: "", line: 0, module: "", inlined: false };
  return [...s.frames.slice(0, s.omitted_after), gap, ...s.frames.slice(s.omitted_after)];
}

export function asProcess(stacks: DocumentStack[]): Process {
  const texts: string[] = [];
  const textIndex = new Map<string, number>();
  const text = (s: string) => {
    let i = textIndex.get(s);
    if (i === undefined) textIndex.set(s, (i = texts.push(s) - 1));
    return i;
  };
  const frames = { function: [] as number[], file: [] as number[], line: [] as number[], module: [] as number[], flags: [] as number[] };
  const frameIndex = new Map<string, number>();
  const caller = [0];
  const frame = [0];
  const nodeIndex = new Map<string, number>();
  const tip = stacks.map((s) => {
    let at = 0;
    for (const f of [...wholeStack(s)].reverse()) {
      const key = `${f.function}\0${f.file}\0${f.line}\0${f.module}\0${f.inlined}`;
      let id = frameIndex.get(key);
      if (id === undefined) {
        frameIndex.set(key, (id = frames.function.length));
        frames.function.push(text(f.function));
        frames.file.push(text(f.file));
        frames.line.push(f.line);
        frames.module.push(text(f.module));
        frames.flags.push((f.inlined ? INLINED : 0) | (f.wrapper ? WRAPPER : 0) | KNOWN);
      }
      const place = `${at} ${id}`;
      let node = nodeIndex.get(place);
      if (node === undefined) {
        nodeIndex.set(place, (node = caller.length));
        caller.push(at);
        frame.push(id);
      }
      at = node;
    }
    return at;
  });
  const site = stacks.map((s, i) => {
    let at = tip[i];
    for (let k = callSite(s); k > 0; k--) at = caller[at];
    return at ? frame[at] + 1 : 0;
  });
  return { page: { texts, frames, groups: { tip, site, folded: tip.map(() => 0), gap: tip.map(() => 0) } }, caller, frame } as unknown as Process;
}
