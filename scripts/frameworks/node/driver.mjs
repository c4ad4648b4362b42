// A program's side of the talk with the driver, and what several programs need.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { existsSync, readFileSync } from "node:fs";

export { sleep };
export const [scenario, host, port] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the server killed, and waits until it is back. */
export async function kill() {
  console.log("kill");
  await lines.next();
}

export function version(...packages) {
  for (const name of packages) {
    const file = `node_modules/${name}/package.json`;
    if (existsSync(file)) console.log(`version ${name} ${JSON.parse(readFileSync(file)).version}`);
  }
}

export function check(holds, why) {
  if (!holds) throw new Error(why);
}

/** Waits until the condition holds; one that throws is asked again. */
export async function until(what, holds) {
  const end = Date.now() + 25_000;
  for (;;) {
    try {
      if (await holds()) return;
    } catch {
      // The server may be away.
    }
    check(Date.now() < end, `not in time: ${what}`);
    await sleep(20);
  }
}

/** Gives up on a promise that does not settle, which a client without a connection may return. */
export function within(milliseconds, promise) {
  return Promise.race([promise, sleep(milliseconds).then(() => Promise.reject(new Error("late")))]);
}

/** Does work again and again, and keeps the names of what was acknowledged. */
export function produce(work, pause = 2) {
  const acknowledged = new Set();
  let stopped = false;
  const ended = (async () => {
    for (let n = 0; !stopped; n++) {
      try {
        await within(2000, work(n));
        acknowledged.add(`job${n}`);
      } catch {
        // It was not acknowledged.
      }
      await sleep(pause);
    }
  })();
  return { acknowledged, stop: () => ((stopped = true), ended) };
}

export function lost(acknowledged, done) {
  return [...acknowledged].filter((name) => !done.has(name));
}

/** Runs the job of the scenario, and says how it went. */
export async function run(jobs) {
  process.on("unhandledRejection", (error) => console.log(`unhandled: ${error}`));
  try {
    console.log(`pass ${await jobs[scenario]()}`);
  } catch (error) {
    console.log(error.stack);
    console.log(`fail ${String(error).replaceAll("\n", " ")}`);
  }
  process.exit(0);
}

export const require = createRequire(import.meta.url);
