// What the tests of pages share: a headless Chromium, pages opened from the disk, figures read back.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

export const WAIT = { timeout: 120000 }; // machines can be slow; nothing here judges speed

/** A new context whose pages are as patient with everything. */
export const contextOf = async (browser, options) => {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(WAIT.timeout);
  return context;
};

export function onPath(...names) {
  for (const name of names)
    for (const folder of (process.env.PATH ?? "").split(":"))
      if (folder && fs.existsSync(path.join(folder, name))) return path.join(folder, name);
  return null;
}

/** The browser of this machine; without one, the test ends as skipped. */
export function browserOrSkip() {
  const found = onPath("chromium", "chromium-browser", "google-chrome");
  if (!found) {
    console.log("SKIPPED: no chromium on this machine; scripts/dependencies check installs it where it is a package (on Ubuntu it is a snap alone)");
    process.exit(77);
  }
  return found;
}

/** build: where the packages are. */
export function launch(build, executablePath) {
  const { chromium } = createRequire(path.join(build, "package.json"))("playwright-core");
  return chromium.launch({
    executablePath,
    headless: true,
    timeout: 120000,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
  });
}

export const number = (page, selector) => page.$eval(selector, (e) => Number(e.dataset.exact));
/** What was asked for is drawn. Effects run in a timer that a frame starts, and may ask for another frame; a busy machine shows frames before timers. */
export const settled = (page) => page.evaluate(async () => {
  for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
});
export const press = async (page, selector) => {
  await page.click(selector);
  await settled(page);
};
export const show = async (page, selector, on) => {
  await page.setChecked(selector, on);
  await settled(page);
};
export const type = async (page, selector, text) => {
  await page.fill(selector, text);
  await settled(page);
};

/** A page opened; calls `read` with it. It must not complain, and asks the network for nothing. shots: a directory for its picture. */
export async function other(browser, file, read, shots) {
  const context = await contextOf(browser, { viewport: { width: 1200, height: 900 } });
  const page = await context.newPage();
  const trouble = [];
  const asked = [];
  page.on("console", (m) => m.type() === "error" && trouble.push(m.text()));
  page.on("pageerror", (e) => trouble.push(e.stack));
  page.on("dialog", (d) => trouble.push(`a dialog: ${d.message()}`) && d.dismiss());
  page.on("request", (r) => asked.push(r.url()));
  await page.goto(pathToFileURL(file).href);
  await page.waitForFunction(() => document.documentElement.dataset.ready, null, WAIT);
  await settled(page);
  await read(page);
  assert.deepEqual(trouble, []);
  assert.deepEqual(asked.filter((url) => !url.startsWith("data:")), [pathToFileURL(file).href]);
  if (shots) await page.screenshot({ path: path.join(shots, `${path.basename(file, ".html")}.png`), fullPage: true });
  await context.close();
}
