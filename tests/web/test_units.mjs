// The functions of the page that need no browser. Usage: test_units.mjs SOURCE BUILD_WEB
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [source, build] = process.argv.slice(2).map((p) => path.resolve(p));
const esbuild = createRequire(path.join(build, "package.json"))("esbuild");
const out = fs.mkdtempSync(path.join(build, "units-"));

async function load(name) {
  const file = path.join(out, `${name}.mjs`);
  await esbuild.build({ entryPoints: [path.join(source, "src", `${name}.ts`)], bundle: true, format: "esm", outfile: file, logLevel: "error" });
  return import(pathToFileURL(file).href);
}

try {
  const units = await load("units");
  assert.deepEqual([0, 1, 1023, 1024, 1536, 10 * 1024, 1024 ** 2 - 1, 5 * 1024 ** 3, -2048].map(units.bytes),
    ["0 B", "1 B", "1023 B", "1 KB", "1.50 KB", "10 KB", "1.00 MB", "5 GB", "-2 KB"]);
  assert.deepEqual([0, 9999, 10000, 999949, 1e6, 45.8e6, 2.5e9].map(units.count), ["0", "9,999", "10 k", "1.00 M", "1 M", "45.8 M", "2.50 G"]);
  assert.deepEqual([0, 999, 1500, 2.5e6, 3e9, 90e9, 5400e9].map(units.duration), ["0 ns", "999 ns", "1.50 µs", "2.50 ms", "3 s", "1.50 min", "1.50 h"]);
  assert.equal(units.exact(1234567), "1,234,567");
  assert.deepEqual([units.percent(1, 3), units.percent(1, 1e6), units.percent(0, 5), units.percent(1, 0)], ["33.3 %", "<0.1 %", "0.0 %", ""]);
  assert.deepEqual([units.plural(1, "block"), units.plural(2, "block"), units.plural(0, "process", "processes")], ["1 block", "2 blocks", "0 processes"]);

  const state = await load("state");
  const view = { ...state.START, from: 3, to: 9, by: "end", search: "a&b=c#/x y/", reversed: true, focus: "12-3.4-5" };
  assert.equal(state.toHash(state.START), "");
  assert.deepEqual(state.fromHash(`#${state.toHash(view)}`), view);
  assert.deepEqual(state.fromHash("#by=nonsense&from=x&unknown=1"), state.START);

  const { splitOfPeak } = await load("figures");
  const moments = (...list) => list.map(([time_ns, live_bytes]) => ({ time_ns, live_bytes }));
  assert.equal(splitOfPeak(moments([50, 500], [190, 1000], [210, 10]), 1000, 100), 1);
  assert.equal(splitOfPeak(moments([97, 970], [150, 1000]), 1000, 100), 0);
  assert.equal(splitOfPeak(moments([90, 900], [110, 10]), 1000, 100), 0);
  assert.equal(splitOfPeak(moments([90, 0]), 1000, 100), 0);

  const frames = await load("frames");
  assert.equal(frames.matcher("  "), null);
  assert.ok(frames.matcher("MALLOC")("xmalloc util.c:3") && !frames.matcher("malloc")("free"));
  assert.ok(frames.matcher("/^x.*:3$/")("xmalloc util.c:3") && !frames.matcher("/(/")("("));

  // Two stacks main > work > {malloc wrapper}, main > lib, and one that stands for three folded ones.
  const OWN = 1, WRAPPER = 4, KNOWN = 8;
  const p = {
    page: {
      texts: ["main", "prog", "work", "lib", "libx.so", "xmalloc", "prog.c"],
      frames: { function: [0, 2, 3, 5], file: [6, 6, 4, 6], line: [1, 2, 0, 3], module: [1, 1, 4, 1], flags: [OWN | KNOWN, OWN | KNOWN, KNOWN, OWN | KNOWN | WRAPPER] },
      groups: { tip: [3, 4, 2], folded: [0, 0, 4] },
    },
    caller: [0, 0, 1, 2, 1],
    frame: [0, 0, 1, 3, 2],
  };
  const tree = await load("tree");
  const plain = { reversed: false, hideLibraries: false, hideWrappers: false, byLine: false };
  const shape = (n) => [n.frame, n.value, n.self, n.folded, ...n.children.map(shape)];
  assert.deepEqual(shape(tree.buildTree(p, [50, 30, 20], plain)),
    [-1, 100, 0, 0, [0, 100, 0, 0, [1, 70, 0, 0, [3, 50, 50, 0], [-2, 20, 20, 3]], [2, 30, 30, 0]]]);
  assert.deepEqual(shape(tree.buildTree(p, [50, 30, 20], { ...plain, hideWrappers: true })),
    [-1, 100, 0, 0, [0, 100, 0, 0, [1, 70, 50, 0, [-2, 20, 20, 3]], [2, 30, 30, 0]]]);
  assert.deepEqual(shape(tree.buildTree(p, [50, 30, 0], { ...plain, hideLibraries: true, hideWrappers: true })),
    [-1, 80, 0, 0, [0, 80, 30, 0, [1, 50, 50, 0]]]);
  assert.deepEqual(shape(tree.buildTree(p, [50, 30, -5], { ...plain, reversed: true })),
    [-1, 80, 0, 0, [3, 50, 0, 0, [1, 50, 0, 0, [0, 50, 50, 0]]], [2, 30, 0, 0, [0, 30, 30, 0]]]);
  const root = tree.buildTree(p, [50, 30, 20], plain);
  const node = root.children[0].children[0].children[0];
  assert.equal(tree.findPath(root, tree.pathOf(node)), node);
  assert.equal(tree.findPath(root, "nowhere"), root);
  assert.deepEqual(root.children[0].children.map((n) => n.left), [0, 0.7]);
} finally {
  fs.rmSync(out, { recursive: true });
}
