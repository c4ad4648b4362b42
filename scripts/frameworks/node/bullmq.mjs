// BullMQ: jobs, delayed jobs, jobs that fail and are tried again, and flows of jobs with children.
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { check, host, kill, lost, port, produce, run, sleep, until, version } from "./driver.mjs";

version("bullmq");
const connection = { host, port, retryStrategy: () => 100, maxRetriesPerRequest: null };
const quiet = (made) => (made.on("error", () => {}), made);

function worker(name, work) {
  return quiet(new Worker(name, work, { connection, concurrency: 5, stalledInterval: 2000, lockDuration: 4000, maxStalledCount: 20 }));
}

/** Adds jobs with these options while a worker works, across a kill. */
async function across(options, work, pause = 3) {
  const queue = quiet(new Queue("queue", { connection: { ...connection, maxRetriesPerRequest: 1 } }));
  const events = quiet(new QueueEvents("queue", { connection }));
  const [done, told] = [new Set(), new Set()];
  events.on("completed", ({ jobId }) => told.add(jobId));
  worker("queue", async (job) => {
    await work?.(job);
    done.add(job.data.name);
  });
  const producer = produce((n) => queue.add("job", { name: `job${n}` }, options), pause);
  await sleep(2000);
  await kill();
  const before = done.size;
  await until("jobs are done again", () => done.size > before + 30);
  await producer.stop();
  await until("all jobs are done", () => lost(producer.acknowledged, done).length === 0);
  await until("none is left", async () => {
    const counts = await queue.getJobCounts("waiting", "active", "delayed", "failed");
    return Object.values(counts).every((count) => count === 0);
  });
  check(told.size > 0, "no event arrived");
  return done;
}

async function jobs() {
  return `${(await across({ priority: 3 })).size} jobs`;
}

async function delayed() {
  const early = [];
  const done = await across({ delay: 700 }, (job) => {
    if (Date.now() < job.timestamp + 690) early.push(job.id);
  });
  check(early.length === 0, `${early.length} jobs ran early`);
  return `${done.size} delayed jobs`;
}

async function retried() {
  const tried = new Set();
  const done = await across({ attempts: 10, backoff: { type: "exponential", delay: 200 } }, (job) => {
    if (!tried.has(job.data.name)) {
      tried.add(job.data.name);
      throw new Error("the first try fails");
    }
  }, 10);
  return `${done.size} jobs, each after a try that failed`;
}

async function flows() {
  const flow = quiet(new FlowProducer({ connection }));
  const done = new Map();
  worker("parents", async (job) => {
    const values = Object.values(await job.getChildrenValues());
    done.set(job.data.name, values.length);
  });
  worker("children", async () => (await sleep(20), 7));
  const producer = produce((n) =>
    flow.add({
      name: "parent", queueName: "parents", data: { name: `job${n}` },
      children: [1, 2, 3].map((name) => ({ name: `${name}`, queueName: "children", data: {} })),
    }), 20);
  await sleep(1500);
  await kill();
  const before = done.size;
  await until("flows are done again", () => done.size > before + 10);
  await producer.stop();
  await until("all flows are done", () => lost(producer.acknowledged, done).length === 0);
  check([...done.values()].every((children) => children === 3), "a parent ran without its children");
  return `${done.size} flows of three children`;
}

run({ jobs, delayed, retried, flows });
