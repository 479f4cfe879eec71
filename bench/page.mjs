// How long the page keeps the browser busy for each thing that a user does, in headless Chromium: CPU time of
// the page's thread until the next frame is drawn, of three times the shortest; and the longest single task in
// it, which is what keeps a user's next key or click waiting. A task is a handler with what it draws at once.
// Exits with 1 when a task takes more than LIMIT ms.
// Usage: page.mjs PAGE.html BUILD_WEB [LIMIT]
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [file, build, limit = "100"] = process.argv.slice(2);
const { chromium } = createRequire(path.join(path.resolve(build), "package.json"))("playwright-core");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => createRequire(import.meta.url)("node:fs").existsSync(p));
const browser = await chromium.launch({ executablePath, headless: true, timeout: 120000, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(120000);
const tracing = await browser.newBrowserCDPSession();
const devtools = await page.context().newCDPSession(page);
await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
/** CPU time of tasks so far, in ms. */
const busy = async () => (await devtools.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value * 1000;
/** CPU time of the longest task of a page's thread while `act` runs, in ms. */
const longest = async (act) => {
  const events = [];
  const collect = (e) => events.push(...e.value);
  tracing.on("Tracing.dataCollected", collect);
  await tracing.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "disabled-by-default-devtools.timeline"] } });
  try {
    await act();
  } finally {
    const complete = new Promise((done) => tracing.once("Tracing.tracingComplete", done));
    await tracing.send("Tracing.end");
    await complete;
    tracing.off("Tracing.dataCollected", collect);
  }
  const threads = new Set(events.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid}:${e.tid}`));
  const tasks = events.filter((e) => e.name === "RunTask" && threads.has(`${e.pid}:${e.tid}`));
  if (tasks.length === 0) throw new Error("the browser's trace has no tasks");
  return Math.max(...tasks.map((e) => (e.tdur ?? 0) / 1000));
};
await page.goto(pathToFileURL(path.resolve(file)).href);
await page.waitForFunction(() => document.documentElement.dataset.ready);
console.log(`ready after ${await page.evaluate(() => document.documentElement.dataset.ready)} ms, ${Math.round(await busy())} ms of CPU time`);

const frames = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));
const drag = async (selector, from, to) => {
  await (await page.$(selector)).scrollIntoViewIfNeeded();
  const box = await (await page.$(selector)).boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 5 });
  return () => page.mouse.up();
};
const slide = (part) => page.$eval("#moment", (e, p) => {
  e.value = String(Math.round(Number(e.max) * p));
  e.dispatchEvent(new Event("input", { bubbles: true }));
}, part);
const hover = async (selector, part) => {
  await (await page.$(selector)).scrollIntoViewIfNeeded();
  const box = await (await page.$(selector)).boundingBox();
  await page.mouse.move(box.x + box.width * part, box.y + Math.min(box.height, 600) / 2);
};
/** Clicks a row of a flame graph, near its left. */
const press = async (selector, row) => {
  await (await page.$(selector)).scrollIntoViewIfNeeded();
  await page.$eval(selector, (e, y) => {
    const box = e.getBoundingClientRect();
    e.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: box.left + 20, clientY: box.top + y }));
  }, row * 19);
};
const click = (selector) => () => page.$eval(selector, (e) => e.click());
/** [what, do, undo]; when doing gives a function, what came before it is not in the sum. */
const actions = [
  ...["end", "growth", "allocated", "temporary", "calls", "byteNs"].map((m) => [`figure ${m}`, click(`#by-${m}`), click("#by-peak")]),
  ["reversed", click("#reversed"), click("#reversed")],
  ["hide libraries", click("#hide-libraries"), click("#hide-libraries")],
  ["show wrappers", click("#wrappers"), click("#wrappers")],
  ["source lines", click("#by-line"), click("#by-line")],
  ["flame, pointer", () => hover("#flame", 0.3), () => hover("#flame", 0.6)],
  ["flame, focus", () => press("#flame", 3.5), click("#flame-reset")],
  ["callers and callees", async () => {
    await press("#flame", 3.5);
    return () => page.$eval("#flame-function", (e) => e.click());
  }, async () => {
    await page.$eval("#sandwich-close", (e) => e.click()).catch(() => 0);
    await page.$eval("#flame-reset", (e) => e.click());
  }],
  ["sort by another column", click("#sites th[data-column=calls] button"), click("#sites th[data-column=peak] button")],
  ["search", () => page.fill("#search", "al"), () => page.fill("#search", "")],
  ["stacks", click("#table-stacks"), () => page.$eval("#table-stacks", (e) => e.previousElementSibling.click())],
  ["filter", () => page.fill("#table-filter", "e"), () => page.fill("#table-filter", "")],
  ["open a row", click("#sites tr[data-site] button.site"), click("#sites tr[data-site] button.site")],
  ["brush", () => drag("#timeline .u-over", 0.3, 0.6), click("#range-clear")],
  ["streamgraph, pointer", () => hover("#stream canvas", 0.5), () => hover("#stream canvas", 0.3)],
  ["streamgraph, stacked", click("#stream-stacked"), () => page.$eval("#stream-stacked", (e) => e.previousElementSibling.click())],
  ["slider to the middle", () => slide(0.5), () => slide(1)],
  ["slider to the start", () => slide(0.02), () => slide(1)],
  ["map, pointer", () => hover("#heap-map", 0.5), () => hover("#heap-map", 0.6)],
  ["sizes, pointer", () => hover("#sizes-over-time", 0.5), () => hover("#sizes-over-time", 0.6)],
];
let worst = 0;
for (const [what, act, undo] of actions) {
  let best = Infinity;
  let task = Infinity;
  for (let i = 0; i < 3; i++) {
    let sum = 0;
    try {
      const all = await longest(async () => {
        let before = await busy();
        const last = await act();
        if (typeof last === "function") {
          await frames();
          before = await busy();
          await last();
        }
        await frames();
        sum = (await busy()) - before;
      });
      task = Math.min(task, all);
    } catch (failure) {
      console.log(`${what}: not on this page (${String(failure).split("\n")[0]})`);
      best = task = 0;
      break;
    }
    best = Math.min(best, sum);
    await undo().catch(() => 0);
    await frames();
  }
  worst = Math.max(worst, task);
  console.log(`${what}: ${Math.round(best)} ms, longest task ${Math.round(task)} ms`);
}
await browser.close();
console.log(`worst task: ${Math.round(worst)} ms`);
process.exit(worst > Number(limit) ? 1 : 0);
