// A current ClickHouse in this process, behind as much of its HTTP interface as mallow uses: what is asked and inserted
// by POST is passed on as it is. Usage: MALLOW_CHDB=DIRECTORY chdb_server.mjs DATA, where `npm i chdb` was run in DIRECTORY.
// Prints its port and the engine's version.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { mkdtempSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { Session } = createRequire(join(process.env.MALLOW_CHDB, "package.json"))("chdb");
const [data] = process.argv.slice(2);
const session = new Session(join(data, "data"));
const scratch = mkdtempSync(join(data, "bodies-"));
let number = 0;

async function answer(url, body) {
  const database = url.searchParams.get("database");
  const query = url.searchParams.get("query");
  await session.queryAsync(`USE ${database ?? "default"}`);
  if (!query) {
    const sql = body.toString();
    const format = /FORMAT (\w+)\s*$/.exec(sql)?.[1];
    return (await session.queryAsync(sql, format ? { format } : {})).bytes();
  }
  const file = join(scratch, String(number++));
  writeFileSync(file, body);
  try {
    await session.queryAsync(query.replace(/ FORMAT (\w+)$/, ` FROM INFILE '${file}' FORMAT $1`));
  } finally {
    unlinkSync(file);
  }
  return "";
}

let last = Promise.resolve(); // one at a time
const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    last = last
      .then(() => answer(new URL(request.url, "http://127.0.0.1/"), Buffer.concat(parts)))
      .then((bytes) => response.end(bytes))
      .catch((error) => {
        response.statusCode = 500;
        response.end(String(error));
      });
  });
});
server.listen(0, "127.0.0.1", async () => {
  const version = await session.queryAsync("SELECT version()", { format: "TSV" });
  console.log(`${server.address().port} ${Buffer.from(version.bytes()).toString().trim()}`);
});
