/** A call site of a document in a table: its name, and its whole stack when it is open. */
import { callSite, type DocumentFrame, type DocumentStack, wholeStack } from "./stacks";

const place = (f: DocumentFrame) => [f.file && `${f.file}${f.line ? `:${f.line}` : ""}`, f.module].filter(Boolean).join(" · ");

/** What a search looks at. */
export const frameText = (f: DocumentFrame) => `${f.function} ${f.file ? `${f.file}:${f.line}` : ""} ${f.module}`;

export function SiteName({ s, open, onOpen }: { s: DocumentStack; open: boolean; onOpen: () => void }) {
  const first = callSite(s);
  const [site, caller]: (DocumentFrame | undefined)[] = first < 0 ? [] : s.frames.slice(first);
  return <td class="name"><button class="quiet site" aria-expanded={open} onClick={onOpen}><span class="twist">{open ? "▾" : "▸"}</span>
    <span><span class="fn">{site?.function ?? "(no stack recorded)"}</span>
      {site && <span class="muted where">{place(site)}{caller ? ` ← ${caller.function}` : ""}</span>}</span></button></td>;
}

export function SiteStack({ s, columns }: { s: DocumentStack; columns: number }) {
  const first = callSite(s);
  return <tr class="detail-row"><td colSpan={columns}><div class="detail"><div class="stack"><ol>{wholeStack(s).map((f, k) => <li key={k} class={f.wrapper || k < first ? "wrapper" : ""}>
    <span class="fn">{f.function}{f.inlined && <span class="muted"> [inlined]</span>}</span> <span class="muted">{place(f)}</span></li>)}</ol></div></div></td></tr>;
}
