// Bull: jobs at once, delayed, and tried again.
import { host, kill, lost, port, produce, require, run, sleep, until, version } from "./driver.mjs";

async function across(add, done) {
  const producer = produce(add, 3);
  await sleep(2000);
  await kill();
  const before = done.size;
  await until("jobs are done again", () => done.size > before + 30);
  await producer.stop();
  await until("all jobs are done", () => lost(producer.acknowledged, done).length === 0);
  return `${done.size} jobs`;
}

async function jobs() {
  version("bull");
  const Queue = require("bull");
  const queue = new Queue("queue", {
    redis: { host, port, retryStrategy: () => 100 },
    settings: { stalledInterval: 2000, lockDuration: 4000, maxStalledCount: 20, retryProcessDelay: 300 },
  });
  queue.on("error", () => {});
  const [done, tried] = [new Set(), new Set()];
  queue.process(5, async (job) => {
    if (job.data.n % 5 === 0 && !tried.has(job.data.n)) {
      tried.add(job.data.n);
      throw new Error("the first try fails");
    }
    done.add(`job${job.data.n}`);
  });
  return across((n) => queue.add({ n }, { attempts: 10, backoff: 300, delay: n % 3 ? 0 : 500 }), done);
}

run({ jobs });
