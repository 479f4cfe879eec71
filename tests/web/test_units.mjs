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
  for (const n of [0, 7, 999, 1000, 99999, 123456, 2 ** 53 - 1, 2 ** 60, 1e22, -1, -999, -1000, -1234567.6, 0.4, 1.5, Infinity])
    assert.equal(units.exact(n), Math.round(n).toLocaleString("en-US"));
  assert.equal(units.exact(-0.4), "0");
  assert.deepEqual([units.percent(1, 3), units.percent(1, 1e6), units.percent(0, 5), units.percent(1, 0)], ["33.3 %", "<0.1 %", "0.0 %", ""]);
  assert.deepEqual([units.plural(1, "block"), units.plural(2, "block"), units.plural(0, "process", "processes")], ["1 block", "2 blocks", "0 processes"]);

  const state = await load("state");
  const view = { ...state.START, from: 3, to: 9, by: "end", search: "a&b=c#/x y/", reversed: true, focus: "12-3.4-5", fn: "12-3" };
  assert.equal(state.toHash(state.START), "");
  assert.deepEqual(state.fromHash(`#${state.toHash(view)}`), view);
  assert.deepEqual(state.fromHash("#by=nonsense&from=x&unknown=1"), state.START);

  // Where slices of time were joined for the page, page faults are, too.
  const { joinSlices } = await load("data");
  const slices = [1, 2, 3, 4].map((n) => ({ time_ns: n * 10, minor_faults: n }));
  assert.deepEqual(joinSlices(slices, 4), slices);
  assert.deepEqual(joinSlices(slices, 2), [{ time_ns: 10, minor_faults: 3 }, { time_ns: 30, minor_faults: 7 }]);
  assert.deepEqual([joinSlices(slices, 3), joinSlices([], 4)], [[], []]);

  // The moment that explains the peak is measured, where any is; the nearest to what was asked for, of two the later.
  const { decodeMap, momentOfPeak, momentsIn, nearestMoment } = await load("moments");
  const moments = (...list) => list.map(([time_ns, live_bytes, measured = true]) => ({ time_ns, live_bytes, measured }));
  const every = (list) => list.map((_m, i) => i);
  const ofPeak = (...list) => momentOfPeak(moments(...list), every(list), 1000, 100);
  assert.equal(ofPeak([50, 500], [190, 1000], [210, 10]), 1);
  assert.equal(ofPeak([97, 995], [150, 1000]), 0);
  assert.equal(ofPeak([97, 970], [150, 1000]), 1);
  assert.equal(ofPeak([90, 900], [100, 1000, false], [110, 10]), 0);
  assert.equal(ofPeak([90, 0, false], [105, 0, false]), 1);
  const three = moments([10, 1], [20, 2, false], [30, 3]);
  assert.equal(nearestMoment(three, [0, 1, 2], 20, (i) => three[i].measured), 2);
  assert.equal(nearestMoment(three, [0, 1], 29), 1);
  assert.equal(nearestMoment(three, [1], 20, (i) => three[i].measured), -1);
  assert.deepEqual([momentsIn({ list: three }, 15, 30, false), momentsIn({ list: three }, 15, 30, true), momentsIn({ list: three }, 31, 40, false)], [[1, 2], [0, 1, 2], []]);
  // Of a map, what did not change stays as it was.
  const map = decodeMap({ cell_bytes: 4096, columns: 2, rows: [0, 8192], changes: [[1, 50, 20, 1, 2, 0], [], [0, 9, 8, 3, 0, 0, 0, 0, 0, 0, 0, 0]] });
  assert.deepEqual([...map.live], [0, 50, 0, 0, 0, 50, 0, 0, 9, 0, 0, 0]);
  assert.deepEqual([...map.free], [0, 20, 0, 0, 0, 20, 0, 0, 8, 0, 0, 0]);
  assert.deepEqual([...map.sites.slice(15, 18)], [1, 2, 0]);
  assert.deepEqual([...map.since], [2, 0, 3, 3]);

  const frames = await load("frames");
  assert.equal(frames.matcher("  "), null);
  assert.ok(frames.matcher("MALLOC")("xmalloc util.c:3") && !frames.matcher("malloc")("free"));
  assert.ok(frames.matcher("/^x.*:3$/")("xmalloc util.c:3") && !frames.matcher("/(/")("("));

  // Two stacks main > work > {malloc wrapper}, main > lib, and one that stands for three folded ones of lib below work.
  const OWN = 1, WRAPPER = 4, KNOWN = 8;
  const p = {
    page: {
      texts: ["main", "prog", "work", "lib", "libx.so", "xmalloc", "prog.c"],
      frames: { function: [0, 2, 3, 5], file: [6, 6, 4, 6], line: [1, 2, 0, 3], module: [1, 1, 4, 1], flags: [OWN | KNOWN, OWN | KNOWN, KNOWN, OWN | KNOWN | WRAPPER] },
      groups: { tip: [3, 4, 2], site: [2, 3, 3], folded: [0, 0, 4], gap: [0, 0, 1] },
    },
    caller: [0, 0, 1, 2, 1],
    frame: [0, 0, 1, 3, 2],
  };
  assert.deepEqual([0, 1, 2].map((g) => frames.siteFrame(p, g)), [1, 2, 2]);
  assert.deepEqual([0, 1, 2].map((g) => frames.stackCount(p, g)), [1, 1, 3]);
  assert.deepEqual(frames.stackOf(p, 2), [2, frames.GAP, 1, 0]);
  const tree = await load("tree");
  const plain = { reversed: false, hideLibraries: false, hideWrappers: false, byLine: false };
  const shape = (t, n = t.root) => {
    const children = tree.childrenOf(t, n).map((c) => shape(t, c));
    return [n.frame, n.value, n.self, ...children];
  };
  const build = (values, options) => tree.buildTree(p, values, { ...plain, ...options });
  const lib = (value) => [frames.GAP, value, 0, [2, value, value]];
  assert.deepEqual(shape(build([50, 30, 20])), [-1, 100, 0, [0, 100, 0, [1, 70, 0, [3, 50, 50], lib(20)], [2, 30, 30]]]);
  assert.deepEqual(shape(build([50, 30, 20], { hideWrappers: true })), [-1, 100, 0, [0, 100, 0, [1, 70, 50, lib(20)], [2, 30, 30]]]);
  assert.deepEqual(shape(build([50, 30, 0], { hideLibraries: true, hideWrappers: true })), [-1, 80, 0, [0, 80, 30, [1, 50, 50]]]);
  assert.deepEqual(shape(build([50, 30, -5], { reversed: true })), [-1, 80, 0, [3, 50, 0, [1, 50, 0, [0, 50, 50]]], [2, 30, 0, [0, 30, 30]]]);
  // The call site of what was folded is at the root with the others of the same.
  assert.deepEqual(shape(build([0, 30, 20], { reversed: true })), [-1, 50, 0, [2, 50, 0, [0, 30, 30], [frames.GAP, 20, 0, [1, 20, 0, [0, 20, 20]]]]]);
  const all = build([50, 30, 20]);
  const [main] = tree.childrenOf(all, all.root);
  const [work, other] = tree.childrenOf(all, main);
  const [leaf] = tree.childrenOf(all, work);
  assert.equal(tree.findPath(all, tree.pathOf(all, leaf)), leaf);
  assert.equal(tree.findPath(all, "nowhere"), all.root);
  assert.deepEqual([work.left, other.left], [0, 0.7]);
  // A search finds what was folded by its call site, and says what may be among frames that were left out.
  const gap = (f) => f === frames.GAP;
  assert.deepEqual(tree.foundIn(all, all.root, (f) => f === 2, gap), { found: 50, perhaps: 0 });
  assert.deepEqual(tree.foundIn(all, work, (f) => f === 2, gap), { found: 20, perhaps: 0 });
  assert.deepEqual(tree.foundIn(all, all.root, (f) => f === 3, gap), { found: 50, perhaps: 20 });
  // Callers and callees of a function, wherever it was called; what was folded counts by its call site.
  const through = (name, values) => tree.throughFunction(p, values, plain, frames.functionKey(p, name));
  const libs = through(2, [50, 30, 20]);
  assert.deepEqual([libs.total, libs.self, libs.perhaps], [50, 50, 0]);
  assert.deepEqual(shape(libs.callers), [2, 50, 0, [0, 30, 30], [frames.GAP, 20, 0, [1, 20, 0, [0, 20, 20]]]]);
  assert.deepEqual(shape(libs.callees), [2, 50, 50]);
  const works = through(1, [50, 30, 20]);
  assert.deepEqual([works.total, works.self, works.perhaps], [70, 0, 0]);
  assert.deepEqual(shape(works.callers), [1, 70, 0, [0, 70, 70]]);
  assert.deepEqual(shape(works.callees), [1, 70, 0, [3, 50, 50], lib(20)]);
  assert.deepEqual([through(3, [50, 30, 20]).total, through(3, [50, 30, 20]).perhaps], [50, 20]);
} finally {
  fs.rmSync(out, { recursive: true });
}
