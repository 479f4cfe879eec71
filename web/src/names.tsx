/** Names as they stand in tables: what is cut when there is no room is the head of a path, not its file and line. */
import type { Process } from "./data";
import { namesOf, OTHER, specialName } from "./frames";
import { exact } from "./units";

export function siteTitle(p: Process, frame: number): string {
  if (frame === OTHER) return `(${exact(p.page.call_sites_together)} smaller call sites)`;
  return frame < 0 ? specialName(frame) : namesOf(p).fn(frame);
}

/** "/usr/src/app/parse.c:12" as "/usr/src/app/", which may be cut, and "parse.c:12". */
export function Path({ place, module, children }: { place: string; module: string; children?: preact.ComponentChildren }) {
  const slash = place.lastIndexOf("/") + 1;
  return (
    <span class="muted where" title={[place, module].filter(Boolean).join(" · ")}>
      {slash > 0 && <span class="head">{place.slice(0, slash)}</span>}
      <span class="tail">{[place.slice(slash), module].filter(Boolean).join(" · ")}{children}</span>
    </span>
  );
}
