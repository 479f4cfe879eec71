// bundle.mjs SOURCE_FOLDER BUILD_FOLDER OUT.c DEPFILE
// Bundles src/main.tsx and src/style.css, and writes them as arrays of bytes. The packages are in
// BUILD_FOLDER/node_modules.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const [source, build, out, depfile] = process.argv.slice(2).map((p) => path.resolve(p));
const esbuild = createRequire(path.join(build, "package.json"))("esbuild");

const options = {
  absWorkingDir: source,
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "silent",
  nodePaths: [path.join(build, "node_modules")],
};

async function bundle(entry, more) {
  try {
    const result = await esbuild.build({ ...options, ...more, entryPoints: [path.join(source, entry)] });
    const inputs = Object.keys(result.metafile.inputs).map((p) => path.resolve(source, p));
    return { bytes: Buffer.from(result.outputFiles[0].contents), inputs };
  } catch (failure) {
    for (const e of failure.errors ?? [{ text: String(failure) }])
      console.error(`web: ${e.location ? `${e.location.file}:${e.location.line}: ` : ""}${e.text}`);
    process.exit(1);
  }
}

/** Inside an element of HTML nothing may look like the end of it. */
function harmless(bytes) {
  const text = bytes.toString("utf8").replace(/<\/(script|style)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
  return Buffer.from(text, "utf8");
}

function array(name, bytes) {
  const rows = [];
  for (let i = 0; i < bytes.length; i += 32)
    rows.push([...bytes.subarray(i, i + 32)].map((b) => (b > 127 ? b - 256 : b)).join(","));
  return `const char ${name}[] = {\n${rows.join(",\n")}};\nconst size_t ${name}_bytes = sizeof ${name};\n`;
}

const script = await bundle("src/main.tsx", {
  format: "iife",
  target: "es2020",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
});
const style = await bundle("src/style.css", { target: ["chrome100", "firefox100", "safari15"] });
fs.writeFileSync(
  out,
  '#include "report/html_assets.h"\n' +
    array("html_script", harmless(script.bytes)) +
    array("html_style", harmless(style.bytes)),
);
const inputs = [...script.inputs, ...style.inputs].map((p) => p.replace(/ /g, "\\ "));
fs.writeFileSync(depfile, `${path.relative(process.cwd(), out)}: ${inputs.join(" ")}\n`);
