// The pages of `mallow fleet report --html` and `fleet diff --html` in headless Chromium: every figure is
// that of --json; names that are HTML stay text. Usage: test_fleet_page.mjs MALLOW BUILD_WEB OLD_BUILD NEW_BUILD [SHOTS]
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { browserOrSkip, launch, number, other, press, show, type } from "./browser.mjs";

const [mallow, build, oldBuild, newBuild, shots] = process.argv.slice(2);
const browserPath = browserOrSkip();
const directory = fs.mkdtempSync(path.join(os.tmpdir(), "mallow-web-fleet-"));
const store = path.join(directory, "fleet.sqlite");
const environment = { ...process.env, LC_ALL: "C", DEBUGINFOD_URLS: "" };
const run = (...args) => execFileSync(mallow, args, { env: environment, maxBuffer: 1 << 30, encoding: "utf8" });
const fleet = (action, ...args) => run("fleet", action, "--store", store, ...args);
const asked = (action, ...args) => JSON.parse(fleet(action, "--json", ...args));
const HOSTILE = `<img src=x onerror="alert(1)">`;
const FIGURES = [["peak", "peak_bytes", "peak_live_bytes"], ["end", "end_live_bytes", "end_live_bytes"], ["allocated", "allocated_bytes", "requested_bytes"],
  ["temporary", "temporary", "temporary_allocations"], ["calls", "calls", null]];

function fill() {
  const recording = path.join(directory, "service.mlw");
  fleet("init");
  const processes = [[oldBuild, 30, "h1", "1"], [oldBuild, 40, "h2", "1"], [oldBuild, 50, HOSTILE, "1"], [newBuild, 40, "h1", "2"], [newBuild, 44, "h3", "</script>"]];
  for (const [program, blocks, host, version] of processes) {
    run("record", "-q", "-o", recording, "--", program, String(blocks));
    fleet("load", "--host", host, "--service", host === HOSTILE ? "<b>x</b>" : "api", "--label", `version=${version}`, "--label", `new=${program === newBuild}`, recording);
    fs.unlinkSync(recording);
  }
}

const rows = (page, figure) => page.$$eval(`#sites tr[data-site] td[data-figure="${figure}"]`, (cells) => cells.map((c) => Number(c.dataset.exact)));
const add = (list, key) => list.reduce((sum, s) => sum + s[key], 0);

/** The table, the flame graph, the totals and the parts, figure by figure. */
async function report(browser, name, selection, how, expected) {
  const more = [...selection, ...how];
  const file = path.join(directory, `${name}.html`);
  fleet("report", "--html", file, ...more);
  assert.ok(fs.statSync(file).size < 5000000);
  const document = asked("report", ...more);
  assert.equal(document.processes, expected);
  const parts = {};
  for (const [by] of FIGURES)
    for (const group of ["host", "service", "build-id", "label.version"])
      parts[`${by} ${group}`] = asked("report", "--distribution", "--by", by, "--group-by", group, ...selection).groups;
  await other(browser, file, async (page) => {
    assert.equal(await number(page, "#processes"), document.processes);
    assert.equal(await number(page, "#hosts"), document.hosts);
    for (const [by, key, total] of FIGURES) {
      await press(page, `#by-${by}`);
      const sites = document.sites.filter((s) => s[key]).sort((a, b) => b[key] - a[key]);
      assert.equal(await number(page, `#total-${by}`), total ? document[total] : add(document.sites, key) + document.left_out[key], `${name}: total of ${by}`);
      for (const [, column] of FIGURES) {
        const have = await rows(page, FIGURES.find((f) => f[1] === column)[0]);
        assert.deepEqual([...have].sort((a, b) => b - a), sites.slice(0, 50).map((s) => s[column]).sort((a, b) => b - a), `${name}: ${column} of the table by ${by}`);
      }
      assert.deepEqual(await rows(page, by), sites.slice(0, 50).map((s) => s[key]), `${name}: the table is in the order of ${by}`);
      assert.deepEqual((await rows(page, "processes")).sort(), sites.slice(0, 50).map((s) => s.processes).sort(), `${name}: processes by ${by}`);
      assert.equal(await number(page, "#flame-total"), add(document.sites, key), `${name}: flame graph of ${by}`);
      for (const group of ["host", "service", "build-id", "label.version"]) {
        await press(page, `#part-${group.replace(".", "-")}`);
        const have = await page.$$eval("#parts tr[data-group]", (list) => list.map((r) => [r.dataset.group, ...[...r.querySelectorAll("[data-exact]")].map((c) => Number(c.dataset.exact))]));
        assert.deepEqual(have, parts[`${by} ${group}`].map((g) => [g.group, g.processes, g.sum, g.minimum, g.median, g.p90, g.maximum]), `${name}: ${by} by ${group}`);
      }
    }
    await press(page, "#by-end");
    const first = document.sites.filter((s) => s.end_live_bytes).sort((a, b) => b.end_live_bytes - a.end_live_bytes)[0];
    await press(page, "#sites tr[data-site] button.site");
    const stack = await page.$$eval("#sites .detail-row .fn", (all) => all.map((e) => e.textContent.replace(" [inlined]", "")));
    assert.deepEqual(stack, first.frames.map((f) => f.function), `${name}: the whole stack`);
    const searched = first.frames[first.call_site].function;
    await type(page, "#search", searched);
    const found = document.sites.filter((s) => s.end_live_bytes && s.frames.some((f) => `${f.function} ${f.file} ${f.module}`.includes(searched)));
    assert.deepEqual((await rows(page, "end")).length, found.length, `${name}: a search in the table`);
    assert.equal(await number(page, "#flame-found"), add(found, "end_live_bytes"), `${name}: a search in the flame graph`);
    assert.equal(await page.$$eval("img, #page b > b", (all) => all.length), 0, "a name became an element");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${name}: wider than the window`);
  }, shots);
  return document;
}

/** What grew and what shrank, with bounds. */
async function difference(browser, name, action, more) {
  const file = path.join(directory, `${name}.html`);
  fleet(action, "--html", file, ...more);
  const document = asked(action, ...more);
  assert.ok(document.sites.length, `${name}: nothing differs`);
  const unit = document.sites[0].growth === undefined ? "_bytes" : "";
  const near = (a, b, what) => assert.ok(Math.abs(a - b) < 1e-6 * Math.max(1, Math.abs(b)), `${what}: ${a}, not ${b}`);
  await other(browser, file, async (page) => {
    for (const all of [false, true]) {
      const sites = document.sites.filter((s) => all || s.differs !== false);
      if (all && sites.length === document.sites.filter((s) => s.differs !== false).length) break;
      if (all) await show(page, "#chance", true);
      for (const [direction, sign] of [["both", 0], ["grew", 1], ["shrank", -1]]) {
        await press(page, `#show-${direction}`);
        const want = sites.filter((s) => !sign || s[`growth${unit}`] * sign > 0).sort((a, b) => Math.abs(b[`growth${unit}`]) - Math.abs(a[`growth${unit}`]));
        for (const key of ["growth", "old_mean", "new_mean", "growth_low", "growth_high"]) {
          const order = (list) => (key === "growth" ? list : [...list].sort((a, b) => a - b));
          const have = (await rows(page, key)).filter((v) => !Number.isNaN(v));
          assert.deepEqual(order(have), order(want.slice(0, 50).map((s) => s[`${key}${unit}`]).filter((v) => v !== undefined)), `${name}: ${key}, ${direction}`);
        }
        if (sign >= 0) near(await number(page, "#flame-grown"), sites.reduce((sum, s) => sum + Math.max(0, s[`growth${unit}`]), 0), `${name}: what grew`);
        if (sign <= 0) near(await number(page, "#flame-shrunk"), sites.reduce((sum, s) => sum + Math.max(0, -s[`growth${unit}`]), 0), `${name}: what shrank`);
      }
    }
    assert.equal(await page.$$eval("img", (all) => all.length), 0, "a name became an element");
  }, shots);
}

function usage() {
  for (const [words, args] of [["exclude each other", ["report", "--html", "x", "--json"]], ["use --json", ["report", "--html", "x", "--leaks"]],
    ["exclude each other", ["diff", "--html", "x", "--sql", "--old", "all", "--new", "all"]]]) {
    const done = spawnSync(mallow, ["fleet", ...args, "--store", store], { encoding: "utf8", cwd: directory });
    assert.equal(done.status, 2);
    assert.ok(done.stderr.includes(words), done.stderr);
  }
  const missing = spawnSync(mallow, ["fleet", "report", "--store", store, "--html", path.join(directory, "none", "x.html")], { encoding: "utf8" });
  assert.equal(missing.status, 1, missing.stderr);
}

let status = 0;
try {
  fill();
  usage();
  const browser = await launch(build, browserPath);
  try {
    await report(browser, "all", [], [], 5);
    await report(browser, "few", [], ["-n", "1", "--by", "end"], 5);
    await report(browser, "one-host", ["--host", HOSTILE], ["--by", "calls"], 1);
    await difference(browser, "bytes", "diff", ["--old", "label.new=false", "--new", "label.new=true", "--by", "end"]);
    await difference(browser, "calls", "diff", ["--old", "label.new=false", "--new", "label.new=true", "--by", "calls"]);
    await difference(browser, "alone", "diff", ["--old", "label.new=true,host=h1", "--new", `host=${HOSTILE}`, "--by", "end"]);
  } finally {
    await browser.close();
  }
} catch (failure) {
  console.log(failure.stack ?? failure);
  status = 1;
} finally {
  fs.rmSync(directory, { recursive: true, force: true });
}
process.exit(status);
