// The page in a browser: three recordings of real programs are opened from the disk in headless
// Chromium; the test clicks, brushes, searches, and compares every number that it reads with
// `mallow report --json`. Usage: test_page.mjs MALLOW BUILD_WEB [SCREENSHOT_FOLDER]
// The first recording takes everything; of what is done by hand the others take half each, and all of it with
// MALLOW_LONG=1.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { browserOrSkip, contextOf, launch, number, onPath, other as open, press, settled, show, type, WAIT } from "./browser.mjs";

const [mallow, build, shots] = process.argv.slice(2);
const browserPath = browserOrSkip();
const long = Boolean(process.env.MALLOW_LONG);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "mallow-web-"));
const environment = { ...process.env, LC_ALL: "C", DEBUGINFOD_URLS: "", PYTHONMALLOC: "malloc" };
const run = (...args) => execFileSync(mallow, args, { env: environment, maxBuffer: 1 << 30, encoding: "utf8" });

function record(name, ...command) {
  return recordWith([], name, ...command);
}

function recordWith(options, name, ...command) {
  const file = path.join(folder, `${name}.mlw`);
  const done = spawnSync(mallow, ["record", "-q", "-o", file, ...options, "--", ...command], { env: environment, encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  run("report", "--full-names", "--html", `${file}.html`, file);
  assert.ok(fs.statSync(`${file}.html`).size <= 5000000);
  return { file, page: `${file}.html`, report: JSON.parse(run("report", "--full-names", "--json", "-n", "0", file)) };
}

// ---- reading the page ----

const ready = async (page) => {
  await page.waitForFunction(() => document.documentElement.dataset.ready && document.querySelector("#sites tbody tr"), null, WAIT);
  await settled(page);
};
/** Exact values of a column of the table, top to bottom, without the sum and what is folded. */
const column = (page, id) => page.$$eval(`#sites tr[data-site]:not([data-folded]) td[data-column="${id}"]`, (cells) => cells.map((c) => Number(c.dataset.exact)));
const sumOf = (page, id) => number(page, `#sites tr.sum td[data-column="${id}"]`);

const FIGURES = [["peak", "peak_bytes"], ["end", "end_live_bytes"], ["allocated", "allocated_bytes"], ["calls", "calls"], ["temporary", "temporary"]];
const add = (list, key) => list.reduce((sum, s) => sum + s[key], 0);
const frameText = (f) => `${f.function} ${f.file ? (f.line ? `${f.file}:${f.line}` : f.file) : ""} ${f.module}`.toLowerCase();
const holds = (site, text) => site.frames.some((f) => frameText(f).includes(text.toLowerCase()));

let turn = 0;
/** Two figures: others with each call. A press of each draws all of the page anew. */
function figuresOfTurn() {
  turn += 2;
  return long ? FIGURES : [FIGURES[turn % FIGURES.length], FIGURES[(turn + 1) % FIGURES.length]];
}

/** The cards, the table by whole stacks and the flame graph, against a process of a report. */
async function compare(page, process, what, figures = FIGURES) {
  assert.equal(await number(page, "#peak"), process.peak_live_bytes, `${what}: peak`);
  assert.equal(await number(page, "#end"), process.end_live_bytes, `${what}: end`);
  assert.equal(await number(page, "#allocated"), process.requested_bytes, `${what}: allocated`);
  assert.equal(await number(page, "#calls"), process.allocations, `${what}: calls`);
  assert.equal(await number(page, "#temporary"), process.temporary_allocations, `${what}: temporary`);
  const sites = process.sites.filter((s) => s.calls || s.peak_bytes || s.end_live_bytes || s.temporary);
  for (const [id, key] of figures) {
    await press(page, `#by-${id}`);
    const want = sites.map((s) => s[key]).sort((a, b) => b - a).slice(0, 25);
    const have = await column(page, id);
    assert.deepEqual(have, want.slice(0, have.length), `${what}: the table by ${id}`);
    const folded = await page.$$eval("#sites tr[data-folded]", (rows) => rows.length);
    assert.ok(have.length + folded >= Math.min(25, sites.length), `${what}: rows of the table`);
    assert.equal(await sumOf(page, id), add(sites, key), `${what}: sum of ${id}`);
    assert.equal(await number(page, "#flame-total"), add(sites, key), `${what}: flame graph of ${id}`);
  }
  await press(page, "#by-peak");
  const bars = await page.$$eval("#size-bars tr", (rows) => rows.map((r) => Number(r.querySelector("[data-exact]").dataset.exact)).filter((v) => v));
  assert.deepEqual(bars, process.size_histogram.map((h) => h.calls), `${what}: sizes`);
}

/** What is chosen on the time axis, as `mallow report --time` says it; early: with what came before its start. */
async function reportOfRange(page, recording, process, early = false) {
  const [from, to] = await page.$eval("#range", (e) => [Number(e.dataset.fromNs), Number(e.dataset.toNs)]);
  const time = `${early && from === 0 ? 0 : process.start_ns + from}ns..${process.start_ns + to - 1}ns`;
  const part = JSON.parse(run("report", "--full-names", "--json", "-n", "0", "-p", String(process.pid), "--time", time, recording.file));
  return part.processes.find((p) => p.start_ns === process.start_ns);
}

async function brush(page, from, to, plot = "#timeline") {
  const over = await page.$(`${plot} .u-over`);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), y, { steps: 4 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 4 });
  await page.mouse.up();
  await settled(page);
}

/** What is drawn as chosen on a plot is the range of the page: behind a press that moves and comes back, and while another is dragged. */
async function dragging(page, what) {
  const over = await page.$("#timeline .u-over");
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  const go = (part) => page.mouse.move(box.x + box.width * part, box.y + box.height / 2, { steps: 4 });
  const drawn = () => page.$eval("#timeline .u-select", (e) => [e.offsetLeft, e.offsetWidth]);
  await brush(page, 0.3, 0.6);
  const chosen = await drawn();
  assert.ok(chosen[1] > 0, `${what}: the range is drawn`);
  await go(0.8);
  await page.mouse.down();
  await go(0.85);
  await go(0.8);
  await page.mouse.up();
  await settled(page);
  assert.deepEqual(await drawn(), chosen, `${what}: behind a press that chose nothing`);
  await go(0.1);
  await page.mouse.down();
  await go(0.9);
  const dragged = await drawn();
  await page.$eval("#range-clear", (e) => e.click());
  await page.waitForFunction(() => !document.getElementById("range-clear"), null, WAIT);
  await settled(page);
  assert.deepEqual(await drawn(), dragged, `${what}: what is dragged over stays`);
  await page.mouse.up();
  await settled(page);
  assert.notEqual(await page.$("#range-clear"), null, `${what}: the drag chose`);
  await press(page, "#range-clear");
}

async function searching(page, process, what) {
  await show(page, "#wrappers", true);
  const sites = process.sites.filter((s) => s.peak_bytes > 0);
  const name = sites[0].frames[Math.min(1, sites[0].frames.length - 1)].function;
  await type(page, "#search", name);
  assert.equal(await number(page, "#flame-found"), add(sites.filter((s) => holds(s, name)), "peak_bytes"), `${what}: found ${name}`);
  await type(page, "#search", "no such function anywhere");
  assert.equal(await number(page, "#flame-found"), 0);
  await type(page, "#search", "");
  await show(page, "#wrappers", false);

  const all = process.sites.filter((s) => s.calls || s.peak_bytes || s.end_live_bytes || s.temporary);
  await type(page, "#table-filter", name);
  const pass = all.filter((s) => holds(s, name));
  assert.equal(await number(page, "#table-count"), pass.length, `${what}: rows with ${name}`);
  assert.equal(await sumOf(page, "peak"), add(pass, "peak_bytes"), `${what}: their peak`);
  assert.equal(await sumOf(page, "calls"), add(pass, "calls"), `${what}: their calls`);
  await type(page, "#table-filter", "");
}

async function sorting(page, process, what) {
  const sites = process.sites.filter((s) => s.calls || s.peak_bytes || s.end_live_bytes || s.temporary);
  await press(page, '#sites th button[data-by="calls"]');
  const most = sites.map((s) => s.calls).sort((a, b) => b - a);
  assert.equal((await column(page, "calls"))[0], most[0], `${what}: sorted by calls`);
  await press(page, '#sites th button[data-by="calls"]');
  assert.equal((await column(page, "calls"))[0], most[most.length - 1], `${what}: sorted the other way`);
  await press(page, "#by-peak");
}

async function flame(page, process, url, what) {
  const total = process.peak_live_bytes;
  for (const id of ["#reversed", "#hide-libraries", "#by-line"]) {
    await show(page, id, true);
    assert.equal(await number(page, "#flame-total"), total, `${what}: ${id} changes no sum`);
    await show(page, id, false);
  }
  // A click on the second row focuses; the address keeps it; another page from that address shows it.
  const canvas = await page.$("#flame");
  await canvas.evaluate((e) => {
    e.closest(".flame").scrollIntoView();
    e.parentElement.scrollTop = 0;
  });
  const box = await canvas.boundingBox();
  await page.mouse.click(box.x + box.width * 0.02, box.y + 19 * 1.5);
  await settled(page);
  const focus = await page.$$eval(".crumbs .crumb", (list) => list.map((c) => c.textContent));
  assert.equal(focus.length, 1, `${what}: a click focuses`);
  const hash = new URL(page.url()).hash;
  assert.match(hash, /focus=/);
  const other = await page.context().newPage();
  await other.goto(url + hash);
  await ready(other);
  assert.deepEqual(await other.$$eval(".crumbs .crumb", (list) => list.map((c) => c.textContent)), focus, `${what}: a shared link`);
  await other.close();
  // The same with keys.
  await page.focus("#flame");
  await page.keyboard.press("Escape");
  await settled(page);
  assert.equal(await page.$(".crumbs .crumb"), null, `${what}: Escape`);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await settled(page);
  assert.deepEqual(await page.$$eval(".crumbs .crumb", (list) => list.map((c) => c.textContent)), focus, `${what}: keys focus`);
  await page.keyboard.press("Escape");
  await settled(page);
}

/** Focus filters the table; callers and callees of a function are summed up wherever it was called. */
async function through(page, process, what) {
  const sites = process.sites.filter((s) => s.peak_bytes > 0);
  await show(page, "#wrappers", true);
  const canvas = await page.$("#flame");
  await canvas.evaluate((e) => e.closest(".flame").scrollIntoView());
  const box = await canvas.boundingBox();
  await page.mouse.click(box.x + box.width * 0.02, box.y + 19 * 3.5);
  await settled(page);
  const path = await page.$$eval(".crumbs .crumb", (list) => list.map((c) => c.textContent.replace(/ \[inlined\]$/, "")));
  assert.equal(path.length, 3, `${what}: the focus is three frames deep`);
  const outermost = (s) => s.frames.map((f) => f.function).reverse();
  const inFocus = sites.filter((s) => path.every((f, i) => outermost(s)[i] === f));
  assert.ok(inFocus.length > 0);
  assert.equal(await sumOf(page, "peak"), add(inFocus, "peak_bytes"), `${what}: the table of the focus`);
  const rows = await page.$$eval("#sites tr[data-site]", (list) => list.length);
  assert.ok(rows > 0 && rows <= inFocus.length);
  await press(page, "#flame-function");
  const fn = path[2];
  assert.equal(await number(page, "#sandwich-total"), add(sites.filter((s) => s.frames.some((f) => f.function === fn)), "peak_bytes"), `${what}: all of ${fn}`);
  assert.equal(await number(page, "#sandwich-self"), add(sites.filter((s) => s.frames[0].function === fn), "peak_bytes"), `${what}: ${fn} by itself`);
  assert.match(new URL(page.url()).hash, /fn=/);
  for (const id of ["#callers", "#callees"]) assert.ok((await (await page.$(id)).boundingBox()).height > 15, `${what}: ${id}`);
  await press(page, "#sandwich-close");
  assert.equal(await page.$("#sandwich"), null);
  await press(page, "#focus-clear");
  assert.equal(await page.$("#in-focus"), null);
  assert.equal(await sumOf(page, "peak"), add(sites, "peak_bytes"), `${what}: all again`);
  await show(page, "#wrappers", false);
}

async function details(page, process, what) {
  await press(page, "#sites tr[data-site] button.site");
  const frames = await page.$$eval(".detail .stack li .fn", (list) => list.map((e) => e.textContent.replace(/ \[inlined\]$/, "")));
  const most = Math.max(...process.sites.map((s) => s.peak_bytes));
  const tops = process.sites.filter((s) => s.peak_bytes === most).map((s) => s.frames.map((f) => f.function).join("\n"));
  assert.ok(tops.includes(frames.join("\n")), `${what}: the stack of the largest`);
  await press(page, "#sites tr[data-site] button.site");
}

async function waterfall(page, process, what) {
  const threshold = process.mmap_threshold;
  const last = await page.$eval("#threshold", (e) => e.dataset.exact ?? null);
  assert.equal(last, threshold?.known ? String(threshold.steps[threshold.steps.length - 1].bytes) : null, `${what}: the mmap threshold`);
  const parts = (id) => page.$$eval(`#${id} td[data-part]`, (cells) => Object.fromEntries(cells.map((c) => [c.dataset.part, Number(c.dataset.exact)])));
  const place = () => page.$eval("#moment-place", (e) => [Number(e.dataset.ns), e.dataset.measured === "true"]);
  // Each moment that the report explains has a button; its parts are those of the report.
  for (const e of process.explained) {
    const time = e.measured_ns ?? e.time_ns;
    await press(page, `.moments button[data-at="${time}"]`);
    assert.deepEqual(await place(), [time, e.measured_ns !== null]);
    const { rss, known, ...shown } = await parts(e.measured_ns === null ? "known" : "waterfall");
    assert.deepEqual(shown, Object.fromEntries(e.parts.map((p) => [p.name, p.bytes])), `${what}: the parts of ${e.at}`);
    if (e.measured_ns !== null) assert.equal(rss, e.rss_bytes, `${what}: resident at ${e.at}`);
    else assert.equal(known, add(e.parts, "bytes"));
    assert.deepEqual(await page.$$eval("#advice li", (list) => list.map((l) => l.dataset.setting)), e.advice.map((a) => a.setting), `${what}: advice of ${e.at}`);
  }
  if (process.explained.length) await slider(page, process, what, parts, place);
}

/** The slider moves all of it: to every kind of moment, in the whole run and in a range; the address keeps it. */
async function slider(page, process, what, parts, place) {
  const last = await page.$eval("#moment", (e) => Number(e.max));
  const seen = { true: 0, false: 0 };
  const maps = new Set();
  // At equal distances; then on, until one without a measurement was seen.
  const positions = Array.from({ length: 9 }, (_v, i) => Math.round((last * i) / 8));
  for (let i = 0; i < positions.length || (!seen[false] && i <= last); i++) {
    await page.$eval("#moment", (e, value) => {
      e.value = String(value);
      e.dispatchEvent(new Event("input", { bubbles: true }));
    }, positions[i] ?? i);
    await settled(page);
    const [ns, measured] = await place();
    assert.match(new URL(page.url()).hash, new RegExp(`at=${ns}`));
    seen[measured]++;
    maps.add(JSON.stringify(await page.$eval("#map-legend", (e) => ({ ...e.dataset }))));
    if (measured) {
      const { rss, ...shown } = await parts("waterfall");
      assert.equal(Object.values(shown).reduce((a, b) => a + b, 0), rss, `${what}: parts add up at ${ns}`);
      continue;
    }
    // What is not measured is said to be so, and the measurement beside it is another moment's.
    const { known, ...shown } = await parts("known");
    assert.equal(Object.values(shown).reduce((a, b) => a + b, 0), known);
    assert.equal(await page.$("#waterfall"), null);
    if (!process.explained.some((e) => e.measured_ns !== null)) continue;
    const [away, at] = await page.$eval(".nearest", (e) => [Number(e.dataset.away), Number(e.querySelector("#nearest").dataset.ns)]);
    assert.ok(away !== 0 && at === ns + away, `${what}: how far away the nearest measurement is`);
  }
  assert.ok(seen[false] > 0, `${what}: moments without a measurement`);
  assert.ok(process.peak_live_bytes < 1 << 20 || maps.size > 1, `${what}: the map changes`);
  // In a range only moments of that range count.
  await brush(page, 0.4, 0.6);
  const [from, to] = await page.$eval("#range", (e) => [Number(e.dataset.fromNs), Number(e.dataset.toNs)]);
  const [ns] = await place();
  assert.ok(ns >= from && ns <= to, `${what}: ${ns} is in the range ${from} to ${to}`);
  assert.ok(await page.$("#waterfall") || await page.$("#none-in-range") || await page.$("#nearest"));
  for (const id of ["#waterfall", "#nearest"]) {
    const other = await page.$(id) && await page.$eval(id, (e) => Number(e.dataset.ns));
    if (other) assert.ok(other >= from && other <= to, `${what}: a measurement from outside of the range`);
  }
  await press(page, "#range-clear");
}

/** Live bytes by call site over time add up to what was live, at the end and wherever is pointed at. */
async function stream(page, process, what) {
  const read = () => page.$eval("#stream", (e) => ({ bin: Number(e.dataset.bin), total: Number(e.dataset.total), layers: [...e.querySelectorAll("li")].map((l) => Number(l.dataset.exact)) }));
  const check = async (when) => {
    const { bin, total, layers } = await read();
    assert.equal(layers.reduce((a, b) => a + b, 0), total, `${what}: layers ${when}`);
    assert.equal(total, process.timeline[bin].live_bytes, `${what}: live ${when}`);
    return bin;
  };
  if (!(await page.$("#stream li"))) return;
  const live = process.timeline.map((t) => t.live_bytes);
  const start = await check("where most is live");
  assert.equal(live[start], Math.max(...live));
  const canvas = await page.$("#stream canvas");
  // What stands above may still grow, and push the canvas out of the window: where it is, is asked again.
  for (const at of [0.3, 0.7]) {
    const end = Date.now() + WAIT.timeout;
    let bin = NaN;
    // A browser need not report a pointer that stays where it is: it goes up and down by a pixel.
    for (let y = 0; !(Math.abs(bin / live.length - at) < 0.2); y = 1 - y) {
      assert.ok(Date.now() < end, `${what}: the slice below the pointer at ${at} is ${bin} of ${live.length}`);
      await canvas.scrollIntoViewIfNeeded();
      const box = await canvas.boundingBox();
      await page.mouse.move(box.x + box.width * at, box.y + box.height / 2 + y);
      await settled(page);
      bin = await check(`at ${at}`);
    }
  }
  await page.mouse.move(0, 0);
  await press(page, "#stream-stacked");
  assert.equal(await check("stacked"), start);
}

async function threads(page, process, what) {
  const rows = await page.$$eval("#threads tbody tr", (list) => list.map((r) => [...r.querySelectorAll("[data-exact]")].map((c) => Number(c.dataset.exact))));
  const want = process.thread_figures.filter((t) => t.calls);
  assert.equal(rows.reduce((s, r) => s + r[1], 0), process.requested_bytes, `${what}: threads add up`);
  if (want.length < 2 || want.length > 15) return;
  for (const t of want) {
    const name = t.name ? `${t.name} (${t.tid})` : `thread ${t.tid}`;
    await page.selectOption("#lane", { label: name });
    await settled(page);
    assert.equal(await sumOf(page, "allocated"), t.allocated_bytes, `${what}: allocated by ${name}`);
    assert.equal(await sumOf(page, "end"), t.end_live_bytes, `${what}: live of ${name}`);
  }
  await page.selectOption("#lane", "-1");
  await settled(page);
}

/** searches, draws: whether the table is searched and sorted, whether the flame graph and the plot are worked with. */
async function look(browser, recording, name, { searches, draws }) {
  const context = await contextOf(browser, { viewport: { width: 1300, height: 900 } });
  const page = await context.newPage();
  const trouble = [];
  page.on("console", (m) => m.type() === "error" && trouble.push(m.text()));
  page.on("pageerror", (e) => trouble.push(e.stack));
  context.on("request", (r) => /^(file|data|blob):/.test(r.url()) || trouble.push(`asked the network for ${r.url()}`));
  const url = pathToFileURL(recording.page).href;
  await page.goto(url);
  await ready(page);
  console.log(`${name}: ${recording.report.events} events, ${fs.statSync(recording.page).size} bytes, ready after ${await page.evaluate(() => document.documentElement.dataset.ready)} ms`);
  assert.equal(await number(page, "#events"), recording.report.events);
  assert.deepEqual(trouble, []);

  const processes = [...recording.report.processes].sort((a, b) => b.peak_live_bytes - a.peak_live_bytes);
  await press(page, "#table-stacks");
  for (const [i, process] of processes.slice(0, 2).entries()) {
    const what = `${name} ${process.pid}`;
    if (i) {
      await page.click(`#processes [data-pid="${process.pid}"]`);
      await page.waitForFunction((pid) => document.querySelector("header").textContent.includes(`pid ${pid},`) && document.querySelector("#sites tbody tr"), process.pid, WAIT);
      await press(page, "#table-stacks");
    }
    await compare(page, process, what);
    if (process.sites.length > 3 && searches) {
      await searching(page, process, what);
      await sorting(page, process, what);
      await details(page, process, what);
    }
    if (process.sites.length > 3 && draws) {
      await flame(page, process, url, what);
      await through(page, process, what);
    }
    await waterfall(page, process, what);
    await stream(page, process, what);
    await threads(page, process, what);
    for (const [from, to] of searches && draws ? [[0.31, 0.64], [0.0, 0.2]] : searches ? [[0.31, 0.64]] : [[0.0, 0.2]]) {
      await brush(page, from, to);
      assert.notEqual(await page.$("#range-clear"), null, `${what}: a range was chosen`);
      await compare(page, await reportOfRange(page, recording, process), `${what}, ${from} to ${to}`, figuresOfTurn());
      await press(page, "#range-clear");
    }
    if (!draws) continue;
    await dragging(page, what);
    await page.focus("#timeline");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Shift+ArrowRight");
    await settled(page);
    await compare(page, await reportOfRange(page, recording, process), `${what}, a range by keys`, figuresOfTurn());
    await page.focus("#timeline");
    await page.keyboard.press("Escape");
    await settled(page);
    await compare(page, process, `${what}, the whole again`, figuresOfTurn());
  }
  assert.deepEqual(trouble, []);
  await context.close();
}

/** Page faults beside the bytes, over everything and in ranges chosen on either plot. */
async function faults(browser, recording) {
  const [process] = recording.report.processes;
  assert.deepEqual(recording.report.kernel.kinds, ["faults", "swapin"]);
  assert.ok(process.page_faults.minor > 4000, "the program touched its pages");
  const sum = (list, key) => list.reduce((s, slice) => s + slice[key], 0);
  await other(browser, recording.page, async (page) => {
    const check = async (part, what) => {
      const figure = (key) => number(page, `#page-faults [data-figure="${key}"]`);
      assert.equal(await figure("minor"), part.page_faults.minor, `${what}: minor faults`);
      assert.equal(await figure("major"), part.page_faults.major, `${what}: major faults`);
      assert.equal(await figure("swap"), sum(part.page_timeline, "swapped_in_pages"), `${what}: pages from swap`);
      assert.equal(sum(part.page_timeline, "minor_faults"), part.page_faults.minor, `${what}: the sum of its slices`);
    };
    await check(process, "faults");
    for (const [from, to, plot] of [[0.3, 0.7, "#timeline"], [0, 0.5, "#faults"], [0.45, 0.55, "#faults"]]) {
      await brush(page, from, to, plot);
      await check(await reportOfRange(page, recording, process, true), `faults from ${from} to ${to} of ${plot}`);
      await press(page, "#range-clear");
    }
    // Both plots have one time axis.
    const boxes = await page.$$eval("#timeline .u-over, #faults .u-over", (all) => all.map((e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().width]));
    assert.deepEqual(boxes[0], boxes[1]);
    await show(page, "#page-faults label:first-child input", false);
    await show(page, "#page-faults label:first-child input", true);
    await check(process, "faults, the whole again");
  });
}

const other = (browser, file, read) => open(browser, file, read, shots);

/** mallow diff: two recordings, read back figure by figure. */
async function difference(browser, old, now) {
  const file = path.join(folder, "diff.html");
  run("diff", "--full-names", "--html", file, old.file, now.file);
  const document = JSON.parse(run("diff", "--full-names", "--json", "-n", "4000", old.file, now.file)); // as many as the page has at most
  await other(browser, file, async (page) => {
    for (const [id, key] of [["end", "end_live_bytes"], ["peak", "peak_bytes"], ["allocated", "allocated_bytes"], ["calls", "calls"], ["temporary", "temporary"]]) {
      assert.equal(await number(page, `#totals [data-figure="${id}"]`), document.growth[key], `diff: growth of ${id}`);
      await press(page, `#by-${id}`);
      const growths = document.sites.map((s) => s.growth[key]).filter((v) => v);
      const table = () => page.$$eval("#sites tr[data-site] [data-exact]", (cells) => cells.map((c) => Number(c.dataset.exact)));
      const sum = (list) => list.reduce((a, b) => a + b, 0);
      const grown = growths.filter((v) => v > 0).sort((a, b) => b - a);
      const shrunk = growths.filter((v) => v < 0).sort((a, b) => a - b);
      assert.deepEqual(await table(), [...growths].sort((a, b) => Math.abs(b) - Math.abs(a) || b - a).slice(0, 50), `diff: sites by ${id}`);
      assert.equal(await number(page, "#flame-grown"), sum(grown), `diff: what grew in the flame graph of ${id}`);
      assert.equal(await number(page, "#flame-shrunk"), -sum(shrunk), `diff: what shrank in the flame graph of ${id}`);
      await press(page, "#show-grew");
      assert.deepEqual(await table(), grown.slice(0, 50), `diff: sites whose ${id} grew`);
      await press(page, "#show-shrank");
      assert.deepEqual(await table(), shrunk.slice(0, 50), `diff: sites whose ${id} shrank`);
      await press(page, "#show-both");
    }
  });
}

/** mallow compare: the page of the very run whose JSON is printed. */
async function comparison(browser, recording) {
  const [workload, file] = [path.join(folder, "w.mwl"), path.join(folder, "compare.html")];
  run("workload", recording.file, "-o", workload);
  const document = JSON.parse(run("compare", workload, "--alloc", "glibc", "--alloc", "glibc+M_ARENA_MAX=1", "--repeat", "2", "--json", "--html", file));
  await other(browser, file, async (page) => {
    const metrics = Object.keys(document.candidates[0]).filter((k) => k !== "candidate" && document.candidates[0][k].median !== null);
    assert.ok(metrics.length >= 4);
    for (const metric of metrics) {
      const have = await page.$$eval(`#candidates [data-metric="${metric}"]`, (cells) => cells.map((c) => Number(c.dataset.exact)));
      assert.deepEqual(have, document.candidates.map((c) => c[metric].median), `compare: ${metric}`);
    }
    assert.equal((await page.$$("#pareto [data-candidate]")).length, 2);
    assert.ok((await page.$$("#pareto [data-front]")).length >= 1);
    assert.notEqual(await page.$("#over-time canvas"), null);
  });
}

/** mallow tune: every setting that was run, the front, what was confirmed. */
async function tuning(browser) {
  const [workload, file] = [path.join(folder, "w.mwl"), path.join(folder, "tune.html")];
  const document = JSON.parse(run("tune", workload, "--runs", "24", "--confirm", "3", "--json", "--html", file));
  const metrics = Object.keys(document.default).filter((k) => document.default[k].median);
  assert.equal(metrics.length, 3);
  await other(browser, file, async (page) => {
    assert.equal(await number(page, "#runs"), document.runs);
    assert.equal(await number(page, "#points"), document.points);
    const drawn = await page.$$eval("#pareto [data-point]", (list) => list.map((e) => e.dataset.point));
    assert.deepEqual(drawn.sort(), document.searched.map((p) => p.environment).sort(), "tune: every setting is drawn");
    assert.equal((await page.$$("#pareto .default")).length, 1);
    const rows = document.default_on_front ? document.front : [...document.front, document.default];
    for (const metric of metrics) {
      const have = await page.$$eval(`#front [data-metric="${metric}"]`, (cells) => cells.map((c) => Number(c.dataset.exact)));
      assert.deepEqual(have, rows.map((p) => p[metric].median), `tune: ${metric} of the front`);
      const fresh = await page.$$eval(`#winners [data-metric="${metric}"]`, (cells) => cells.map((c) => Number(c.dataset.exact)));
      assert.deepEqual(fresh, document.winners.map((w) => w.fresh[metric].median), `tune: ${metric} of the fresh rounds`);
    }
    const verdicts = await page.$$eval("#winners [data-winner]", (list) => list.map((e) => [e.dataset.winner, e.dataset.confirmed]));
    assert.deepEqual(verdicts, document.winners.map((w) => [w.objective, String(w.confirmed)]));
    // The axes can be chosen; what is pointed at in the table is shown in the plot.
    const labels = () => page.$$eval("#pareto .label", (list) => list.map((e) => e.textContent));
    const before = await labels();
    await page.selectOption("#axis-x", metrics.find((m) => /average/.test(m)));
    await settled(page);
    assert.notDeepEqual(await labels(), before);
    await page.hover("#front tbody tr:first-child");
    await settled(page);
    assert.equal(await page.$eval("#pareto .chosen", (e) => e.dataset.point), rows[0].environment);
    assert.equal(await page.$("#over-time canvas") !== null, document.winners.length > 0);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "tune: wider than the window");
  });
}

/** mallow heap: figures, the treemap, tables; a look into a holder and back. */
async function heap(browser) {
  const file = path.join(folder, "heap.html");
  const victim = spawn(onPath("perl"), ["-e", "my @a = map { [1 .. $_ % 9] } 1 .. 20000; $| = 1; print 'x'; sleep 600"], { stdio: ["ignore", "pipe", "ignore"] });
  try {
    await new Promise((done) => victim.stdout.once("data", done));
    const document = JSON.parse(run("heap", "--json", "--html", file, String(victim.pid)));
    assert.ok(fs.statSync(file).size <= 5000000);
    await other(browser, file, async (page) => {
      assert.equal(await number(page, "#used"), document.used_bytes);
      assert.equal(await number(page, "#trimmable"), document.trimmable_bytes);
      assert.equal(await number(page, "#unreachable-bytes"), document.unreachable_bytes);
      for (const [id, key] of [["types", "types"], ["roots", "roots"]]) {
        const have = await page.$$eval(`#${id} tbody tr td:first-child`, (cells) => cells.map((c) => Number(c.dataset.exact)));
        assert.deepEqual(have, document[key].slice(0, 20).map((r) => r.retained_bytes), `heap: ${id}`);
      }
      const squares = await page.$$eval("#address-space rect", (list) => list.map((e) => Number(e.dataset.exact)));
      assert.equal(squares.reduce((a, b) => a + b), document.used_bytes, "heap: the squares hold what is in use");
      assert.ok(squares.length > 10 && squares.length <= 4096);
      const names = () => page.$$eval("#path button", (list) => list.map((e) => e.textContent));
      const held = await page.$$eval("#treemap [data-node]", (list) => list.map((e) => Number(e.dataset.exact)));
      assert.ok(held.length > 0 && held.reduce((a, b) => a + b) <= document.used_bytes, "heap: the treemap holds no more than there is");
      await page.$eval("#treemap .holder", (e) => e.dispatchEvent(new MouseEvent("click", { bubbles: true })));
      await settled(page);
      assert.equal((await names()).length, 2);
      assert.match(await page.$eval("#way", (e) => e.textContent), /^Way: \S/, "heap: the way to a holder");
      await press(page, "#path button");
      assert.deepEqual(await names(), ["all blocks"]);
      await heapLinks(page, document, String(victim.pid));
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "heap: wider than the window");
    });
    await heapDifference(browser, String(victim.pid));
  } finally {
    victim.kill();
  }
}

/** From a type through what refers to it to a root; and the way that is shown is one. */
async function heapLinks(page, document, pid) {
  const at = async () => Number(await page.$eval("#group", (e) => e.dataset.place));
  await press(page, "#types tbody tr:nth-child(2) td:last-child button");
  assert.equal(await at(), 1);
  const way = await page.$eval("#group-way", (e) => e.textContent);
  const hops = [...way.matchAll(/0x[0-9a-f]+/g)].map((m) => m[0]);
  const why = JSON.parse(run("heap", "--json", "--why", hops.at(-1), pid));
  assert.equal(why.path.length, hops.length + 1, "heap: the way to a block is as long as --why says");
  assert.equal(why.path.at(-1).type, document.types[1].type);
  assert.ok(way.includes(`${why.path[0].kind} ${why.path[0].root}`), `heap: ${way} begins at ${why.path[0].root}`);
  const seen = new Set(), back = [];
  while ((await at()) < document.types.length) {
    const here = await at();
    seen.add(here);
    const next = (await page.$$eval("#referred-by button", (list) => list.map((e) => Number(e.dataset.place)))).filter((p) => !seen.has(p));
    if (next.length > 0) {
      back.push(here);
      await press(page, `#referred-by button[data-place="${Math.max(...next)}"]`);
    } else { // types that refer to each other alone, as far as the page shows it
      assert.ok(back.length > 0, "heap: what refers to a type leads to a root");
      await press(page, `#refers-to button[data-place="${back.pop()}"]`);
    }
  }
  const root = (await at()) - document.types.length;
  assert.ok((await page.$eval("#group", (e) => e.textContent)).includes(document.roots[root].root));
  await press(page, "#roots tbody tr:first-child td:last-child button");
  assert.equal(await at(), document.types.length);
  const references = await page.$$eval("#refers-to td:first-child", (cells) => cells.map((c) => Number(c.dataset.exact)));
  assert.ok(references.length > 0 && references.every((n, i) => n > 0 && (i === 0 || n <= references[i - 1])), "heap: most references first");
}

/** mallow heap --diff: figures and what grew, of perl and of a larger one. */
async function heapDifference(browser, old) {
  const file = path.join(folder, "heap-difference.html");
  const larger = spawn(onPath("perl"), ["-e", "my @a = map { [1 .. $_ % 9] } 1 .. 40000; $| = 1; print 'x'; sleep 600"], { stdio: ["ignore", "pipe", "ignore"] });
  try {
    await new Promise((done) => larger.stdout.once("data", done));
    const document = JSON.parse(run("heap", "--diff", "--json", "--html", file, old, String(larger.pid)));
    await other(browser, file, async (page) => {
      assert.equal(await number(page, "#used"), document.new.used_bytes - document.old.used_bytes);
      const have = await page.$$eval("#types tbody tr td:first-child", (cells) => cells.map((c) => Number(c.dataset.exact)));
      const most = Math.max(...document.types.map((t) => t.new_retained_bytes - t.old_retained_bytes));
      assert.equal(have[0], most, "heap difference: most grown first");
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "heap difference: wider than the window");
    });
  } finally {
    larger.kill();
  }
}

/** Light, dark and narrow: nothing sticks out sideways; pictures for people when a folder is given. */
async function looks(browser, recording, title, ways = [["light", 1280], ["dark", 1920], ["light", 390]]) {
  for (const [theme, width] of ways) {
    const context = await contextOf(browser, { viewport: { width, height: 900 }, colorScheme: theme });
    const page = await context.newPage();
    await page.goto(pathToFileURL(recording.page).href);
    await ready(page);
    await settled(page);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${title} ${theme} ${width}: wider than the window`);
    await press(page, "#sites tr[data-site] button.site"); // open
    const name = await page.$eval("#sites tr[data-site] td.name", (cell) => cell.clientWidth);
    assert.ok(name > 120, `${theme} ${width}: the name of a call site has ${name} pixels`);
    const box = await page.$eval("#sites", (t) => [t.scrollWidth, t.parentElement.clientWidth]);
    assert.ok(box[0] <= box[1], `${title} ${theme} ${width}: the table is ${box[0]} wide in a box of ${box[1]}`);
    if (shots) await page.screenshot({ path: path.join(shots, `${title}-${theme}-${width}.png`), fullPage: true });
    await context.close();
  }
}

const PYTHON = `
import json, threading
text = json.dumps([{"k%d" % i: list(range(i % 50))} for i in range(1000)])
threads = [threading.Thread(target=lambda: [json.loads(text) for _ in range(3)]) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
`;
/* Memory that grows in steps, whose pages are touched one after the other. */
const TOUCHING = `
import time
kept = []
for step in range(12):
    kept.append(bytearray(b"x") * (2 << 20))
    time.sleep(0.01)
    kept[step][::4096] = b"y" * len(kept[step][::4096])
del kept[::2]
more = [bytes(3000) for _ in range(3000)]
`;
const PERL = `
my %lines_of;
for my $file (map { glob "$_/*.pm $_/*/*.pm" } grep { -d } @INC) {
    open my $in, '<', $file or next;
    while (my $line = <$in>) { push @{ $lines_of{lc $1} }, $. while $line =~ /(\\w+)/g; }
    last if keys %lines_of > 8000;
}
`;
const C = Array.from({ length: 100 }, (_x, i) => `int f${i}(int x) { for (int k = 0; k < x; k++) x ^= k * ${i}; return x; }`).join("\n");

let status = 0;
try {
  fs.writeFileSync(path.join(folder, "words.pl"), PERL);
  fs.writeFileSync(path.join(folder, "many.c"), C);
  const python = onPath("python3");
  const recordings = {
    python: record("python", fs.existsSync("/usr/bin/python3") ? "/usr/bin/python3" : python, "-c", PYTHON),
    perl: record("perl", onPath("perl"), path.join(folder, "words.pl")),
    gcc: record("gcc", onPath("gcc", "cc"), "-O1", "-c", path.join(folder, "many.c"), "-o", path.join(folder, "many.o")),
  };
  const tells = JSON.parse(spawnSync(mallow, ["doctor", "--json"], { env: environment, encoding: "utf8" }).stdout).checks.find((c) => c.name === "record-with");
  const canTell = ["faults", "swapin"].every((kind) => tells.detail.split(", ").includes(kind));
  if (!canTell) console.log(`SKIPPED, LOUDLY: the plot of page faults: ${tells.detail}; ${tells.why}`);
  const kernelTells = canTell && recordWith(["--with", "faults,swapin"], "faults", fs.existsSync("/usr/bin/python3") ? "/usr/bin/python3" : python, "-c", TOUCHING);
  const browser = await launch(build, browserPath);
  try {
    for (const [name, recording] of Object.entries(recordings))
      await look(browser, recording, name, { searches: long || name !== "gcc", draws: long || name !== "perl" });
    if (kernelTells) await faults(browser, kernelTells);
    await difference(browser, recordings.perl, recordings.gcc);
    await comparison(browser, recordings.perl);
    await tuning(browser);
    await heap(browser);
    await looks(browser, recordings.gcc, "gcc");
    await looks(browser, recordings.python, "python", ...(long || shots ? [] : [[["light", 390]]]));
  } finally {
    await browser.close();
  }
} catch (failure) {
  console.log(failure.stack ?? failure);
  status = 1;
} finally {
  fs.rmSync(folder, { recursive: true, force: true });
}
process.exit(status);
