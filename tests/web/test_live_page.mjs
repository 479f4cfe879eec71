// The page of `mallow watch --listen` in a headless Chromium: rows opened, filtered, sorted, and what they say
// read back and compared with /report.json; it goes on by itself, and does not while it pauses.
// Usage: test_live_page.mjs MALLOW BUILD PROGRAM [SHOTS]; PROGRAM is tests/watch/server.c.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import readline from "node:readline";
import { browserOrSkip, contextOf, launch, WAIT } from "./browser.mjs";

const [mallow, build, program, shots] = process.argv.slice(2);
const executable = browserOrSkip();

const lineOf = async (stream, pattern) => {
  for await (const line of readline.createInterface({ input: stream })) {
    const found = pattern.exec(line);
    if (found) return found;
  }
  throw new Error(`it ended without ${pattern}`);
};

const rowsOf = (page) => page.$$eval("#sites tr", (rows) => rows.map((r) => ({
  cells: [...r.children].map((c) => c.textContent), frames: [...r.querySelectorAll("li")].map((f) => f.textContent),
  open: r.querySelector("details").open })));

// Every block is sampled.
const watch = spawn(mallow, ["watch", "--json", "--every", "1000h", "--period", "1", "--listen", "127.0.0.1:0", "--", program, "hold", "1000", "grow"],
  { stdio: ["pipe", "pipe", "pipe"] });
const url = lineOf(watch.stderr, /^listening on (http:\S+)/);
await lineOf(watch.stdout, /^ready$/);
const browser = await launch(build, executable);
try {
  const page = await (await contextOf(browser, { viewport: { width: 1200, height: 700 } })).newPage();
  const trouble = [];
  page.on("console", (m) => m.type() === "error" && trouble.push(m.text()));
  page.on("pageerror", (e) => trouble.push(e.stack));
  const shoot = (name) => shots && page.screenshot({ path: path.join(shots, `live-${name}.png`) });
  await page.goto((await url)[1]);
  const hasRow = (name) => page.waitForFunction((n) => [...document.querySelectorAll("#sites li")].some((f) => f.textContent.startsWith(n)), name, WAIT);
  await hasRow("forgets_to_free");
  assert.match(await page.textContent("#name"), /hold 1000 grow \[\d+\]/);
  assert.match(await page.textContent("#sites"), /1,000/);

  // By itself: a block of a megabyte is there.
  watch.stdin.write("1\n");
  await hasRow("grow");

  // Nothing changes while it pauses: what is shown is what was reported last.
  const answers = [];
  page.on("response", async (r) => r.url().includes("report.json") && answers.push(r.json()));
  while (!answers.length) await page.waitForResponse((r) => r.url().includes("report.json"));
  await page.check("#pause");
  const report = await answers.at(-1);
  await page.waitForFunction((blocks) => document.getElementById("state").textContent.includes(`${blocks.toLocaleString("en")} blocks sampled`),
    report.sampled_blocks, WAIT);
  const all = await rowsOf(page);
  assert.equal(all.length, report.sites.length);
  assert.deepEqual(all.map((r) => r.cells[3]),
    [...report.sites].sort((a, b) => b.estimated_bytes - a.estimated_bytes).map((s) => s.estimated_blocks.toLocaleString("en")));
  await shoot("all");

  // Sorted by another column, and marked so.
  await page.click("button[data-key=oldest_age_ns]");
  assert.equal(await page.getAttribute("th:nth-child(5)", "aria-sort"), "descending");
  assert.equal(await page.$$eval("th[aria-sort]", (e) => e.length), 1);
  const byAge = await rowsOf(page);
  assert.equal(byAge[0].frames[0].startsWith("forgets_to_free"), true);
  await shoot("sorted");

  // A row opened shows its stack, and stays open.
  await page.click("#sites tr:first-child summary");
  assert.deepEqual((await rowsOf(page))[0].frames.map((f) => f.split(" ")[0]).slice(0, 3), ["forgets_to_free", "hold", "main"]);
  await page.uncheck("#pause");
  const shown = await page.textContent("#state");
  await page.waitForFunction((before) => document.getElementById("state").textContent !== before, shown, WAIT);
  assert.equal((await rowsOf(page)).find((r) => r.frames[0].startsWith("forgets_to_free")).open, true);
  await shoot("opened");

  // Filtered: by a function that is in one stack, and by none.
  await page.fill("#filter", "FORGETS");
  const some = await rowsOf(page);
  assert.ok(some.length > 0 && some.length < all.length && some.every((r) => r.frames.some((f) => f.startsWith("forgets_to_free"))));
  await shoot("filtered");
  await page.fill("#filter", "no such function");
  assert.equal((await rowsOf(page)).length, 0);
  await page.fill("#filter", "");
  assert.deepEqual(trouble, []);
} finally {
  await browser.close();
  watch.stdin.end();
  assert.equal((await once(watch, "exit"))[0], 3); // the program's own status
}
