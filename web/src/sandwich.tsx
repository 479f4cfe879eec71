/** One function: all that leads to it, and all that it calls. */
import { useMemo, useState } from "preact/hooks";
import type { Process } from "./data";
import { Flame } from "./flame";
import { functionKey, namesOf } from "./frames";
import { throughFunction, type TreeOptions } from "./tree";
import { percent } from "./units";

interface Props {
  p: Process;
  values: ArrayLike<number>;
  whole: number; // their sum
  options: TreeOptions;
  fn: string; // functionKey
  what: string;
  human: (value: number) => string;
  dark: boolean;
  onFunction: (fn: string) => void;
}

export function Sandwich({ p, values, whole, options, fn, what, human, dark, onFunction }: Props) {
  const { hideLibraries, hideWrappers, byLine } = options;
  const both = useMemo(() => throughFunction(p, values, { reversed: false, hideLibraries, hideWrappers, byLine }, fn), [p, values, hideLibraries, hideWrappers, byLine, fn]);
  const [callers, setCallers] = useState("");
  const [callees, setCallees] = useState("");
  const frame = useMemo(() => p.page.frames.function.findIndex((_f, i) => functionKey(p, i) === fn), [p, fn]);
  if (frame < 0) return null;
  const name = namesOf(p).fn(frame);
  const { total, self, perhaps } = both;
  const flame = { p, search: "", byLine, what, human, dark, onFunction };
  return (
    <div id="sandwich" class="sandwich">
      <div class="card-head"><h3>Callers and callees of <code>{name}</code></h3><button id="sandwich-close" onClick={() => onFunction("")}>Close</button></div>
      <p><b id="sandwich-total" data-exact={Math.round(total)}>{perhaps > 0 && "at least "}{human(total)}</b>, {percent(total, whole) || "0 %"} of {what}, with all that it calls; <span id="sandwich-self" data-exact={Math.round(self)}>{human(self)}</span> by itself.
        {perhaps > 0 && <span class="muted"> {human(perhaps)} more have frames that were left out.</span>}</p>
      <h4>Callers <span class="muted">who led to it, next to it the nearest</span></h4>
      <Flame id="callers" tree={both.callers} focus={callers} icicle={false} onFocus={setCallers} {...flame} />
      <h4>Callees <span class="muted">what it called</span></h4>
      <Flame id="callees" tree={both.callees} focus={callees} icicle={true} onFocus={setCallees} {...flame} />
    </div>
  );
}
