// bundle.mjs SOURCE PACKAGES OUT
// Bundles src/main.tsx and src/style.css of the directory SOURCE into OUT/page.js and OUT/page.css, and
// writes the licenses of everything that went in to OUT/LICENSES.txt. The packages are in
// PACKAGES/node_modules. The same sources and the same lock give the same bytes on every machine.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const [source, packages, out] = process.argv.slice(2).map((p) => path.resolve(p));
const esbuild = createRequire(path.join(packages, "package.json"))("esbuild");

const options = {
  absWorkingDir: source,
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "silent",
  nodePaths: [path.join(packages, "node_modules")],
};

async function bundle(entry, more) {
  try {
    const result = await esbuild.build({ ...options, ...more, entryPoints: [path.join(source, entry)] });
    const inputs = Object.keys(result.metafile.inputs).map((p) => path.resolve(source, p));
    return { text: result.outputFiles[0].text, inputs };
  } catch (failure) {
    for (const e of failure.errors ?? [{ text: String(failure) }])
      console.error(`web: ${e.location ? `${e.location.file}:${e.location.line}: ` : ""}${e.text}`);
    process.exit(1);
  }
}

/** Nothing inside an HTML element may look like the end of it. */
function harmless(text) {
  return text.replace(/<\/(script|style)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
}

/** The packages that the inputs belong to, each with its version and license text, sorted by name. */
function licenses(inputs) {
  const marker = `${path.sep}node_modules${path.sep}`;
  const roots = new Set();
  for (const input of inputs) {
    const at = input.lastIndexOf(marker);
    if (at < 0) continue;
    const parts = input.slice(at + marker.length).split(path.sep);
    roots.add(input.slice(0, at + marker.length) + parts.slice(0, parts[0].startsWith("@") ? 2 : 1).join(path.sep));
  }
  const texts = [...roots].map((root) => {
    const about = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"));
    const file = fs.readdirSync(root).find((name) => /^licen[cs]e/i.test(name));
    if (!file) throw new Error(`web: ${about.name} has no license file`);
    const text = fs.readFileSync(path.join(root, file), "utf8").replace(/\r/g, "").trim();
    return `${about.name} ${about.version} (${about.license})\n\n${text}\n`;
  });
  return texts.sort().join(`\n${"-".repeat(80)}\n\n`);
}

const script = await bundle("src/main.tsx", {
  format: "iife",
  target: "es2020",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
});
const style = await bundle("src/style.css", { target: ["chrome100", "firefox100", "safari15"] });
fs.mkdirSync(out, { recursive: true });
fs.writeFileSync(path.join(out, "page.js"), harmless(script.text));
fs.writeFileSync(path.join(out, "page.css"), harmless(style.text));
fs.writeFileSync(path.join(out, "LICENSES.txt"), licenses([...script.inputs, ...style.inputs]));
