// Bull and Bee-Queue: jobs across a kill.
import { check, host, kill, lost, port, produce, require, run, scenario, sleep, until, version } from "./driver.mjs";

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

async function bee() {
  version("bee-queue");
  const Queue = require("bee-queue");
  const redis = { host, port, retry_strategy: () => 100 };
  const make = (options) => new Queue("queue", { redis, stallInterval: 2000, ...options }).on("error", () => {});
  const [adder, worker] = [make({ isWorker: false }), make({ removeOnSuccess: true })];
  const done = new Set();
  worker.process(5, async (job) => done.add(`job${job.data.n}`).size);
  await Promise.all([adder.ready(), worker.ready()]);
  worker.checkStalledJobs(2000, () => {});
  return across((n) => adder.createJob({ n }).retries(10).save(), done);
}

check(["jobs", "bee"].includes(scenario), "no such scenario");
run({ jobs, bee });
