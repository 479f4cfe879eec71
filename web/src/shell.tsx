/** What every kind of page has: its parts, its colours, the link to the view. */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

type Looks = "auto" | "light" | "dark";

export interface Colours {
  dark: boolean;
  looks: Looks;
  setLooks: (l: Looks) => void;
}

export function useColours(): Colours {
  const query = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
  const [system, setSystem] = useState(query.matches);
  const [looks, setLooks] = useState<Looks>("auto");
  useEffect(() => {
    const changed = () => setSystem(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  const dark = looks === "auto" ? system : looks === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  return { dark, looks, setLooks };
}

export function Title({ text, full, colours }: { text: string; full?: string; colours: Colours }) {
  const [copied, setCopied] = useState(false);
  const share = () => {
    navigator.clipboard?.writeText(location.href).then(() => setCopied(true), () => setCopied(false));
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="title">
      <span class="logo" aria-label="mallow">mallow</span>
      <h1 title={full ?? text}>{text}</h1>
      <div class="header-tools">
        <button onClick={share} title="The address holds what is being looked at">{copied ? "Copied" : "Copy link to this view"}</button>
        <select aria-label="Colours" value={colours.looks} onChange={(e) => colours.setLooks(e.currentTarget.value as Looks)}>
          <option value="auto">As the system</option><option value="light">Light</option><option value="dark">Dark</option>
        </select>
      </div>
    </div>
  );
}

export function Section({ id, title, question, children }: { id: string; title: string; question?: string; children: ComponentChildren }) {
  return (
    <section id={id} aria-label={title} class="part">
      <h2>{title} {question && <span class="muted">{question}</span>}</h2>
      {children}
    </section>
  );
}

export function Toggle({ on, label, title, id, onChange }: { on: boolean; label: string; title: string; id: string; onChange: (on: boolean) => void }) {
  return (
    <label class="toggle" title={title}><input type="checkbox" id={id} checked={on} onChange={(e) => onChange(e.currentTarget.checked)} />{label}</label>
  );
}

/** Says that the page can be used, and after how long. */
export function useReady(ready: boolean): void {
  useEffect(() => {
    if (ready) document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }, [ready]);
}
