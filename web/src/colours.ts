/**
 * Colours that people with any of the usual colour blindnesses can tell apart (after Okabe and Ito),
 * in two strengths for light and dark pages. Nothing is said by colour alone.
 */
export interface Theme {
  dark: boolean;
  text: string;
  muted: string;
  line: string;
  back: string;
  panel: string;
  live: string;
  usable: string;
  rss: string;
  vmsize: string;
  mark: string;
  found: string;
  focus: string;
}

export function themeNow(): Theme {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    dark: of("dark") === "1",
    text: of("text"), muted: of("muted"), line: of("line"), back: of("back"), panel: of("panel"),
    live: of("live"), usable: of("usable"), rss: of("rss"), vmsize: of("vmsize"), mark: of("mark"),
    found: of("found"), focus: of("focus"),
  };
}

/** Hues of modules other than the program itself; told apart by lightness as well. */
const HUES: [number, number, number][] = [
  [202, 55, 74], [45, 70, 70], [327, 40, 78], [162, 45, 66], [225, 45, 80], [25, 45, 80], [90, 35, 72], [270, 35, 80],
];

export function moduleColour(own: boolean, module: string, shade: number, dark: boolean): string {
  let [h, s, l] = [27, 85, 68];
  if (!own) {
    let hash = 0;
    for (let i = 0; i < module.length; i++) hash = (hash * 31 + module.charCodeAt(i)) >>> 0;
    [h, s, l] = HUES[hash % HUES.length];
  }
  const light = dark ? l * 0.5 + shade * 4 : l + shade * 5;
  return `hsl(${h} ${dark ? s * 0.75 : s}% ${light}%)`;
}
