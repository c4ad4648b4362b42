// BullMQ: how many jobs that do nothing are added and worked on in a second.
import { Queue, Worker } from "bullmq";
import { host, port, version } from "./driver.mjs";

const jobs = Number(process.argv[5]);
const BULK = 1000;
const CALLERS = 50;
const CONCURRENCY = 50;

version("bullmq");
const connection = { host, port, maxRetriesPerRequest: null };

async function timed(step, count, work) {
  const start = process.hrtime.bigint();
  await work();
  console.log(`rate ${(count * 1e9) / Number(process.hrtime.bigint() - start)} ${step}`);
}

const queue = new Queue("queue", { connection });
await queue.waitUntilReady();
const add = (number) => queue.add("job", { number });
const bulk = Array.from({ length: BULK }, (_, number) => ({ name: "job", data: { number } }));
// The programs of the scripts are loaded, and this one is compiled.
for (let n = 0; n < 200; n++) await add(n);
await queue.addBulk(bulk);
await queue.obliterate({ force: true });

await timed("add, one by one", jobs, async () => {
  for (let n = 0; n < jobs; n++) await add(n);
});
await timed(`add, ${CALLERS} callers`, jobs, async () => {
  let n = 0;
  const caller = async () => {
    while (n++ < jobs) await add(n);
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
});
await timed(`addBulk of ${BULK}`, jobs, async () => {
  for (let n = 0; n < jobs; n += BULK) await queue.addBulk(bulk.slice(0, jobs - n));
});

const all = 3 * jobs;
const worker = new Worker("queue", async () => {}, { connection, concurrency: CONCURRENCY, autorun: false });
await worker.waitUntilReady();
await timed(`work, concurrency ${CONCURRENCY}`, all, async () => {
  let done = 0;
  await new Promise((resolve, reject) => {
    worker.on("completed", () => ++done === all && resolve());
    worker.on("failed", (_, error) => reject(error));
    worker.run().catch(reject);
  });
});
const counts = await queue.getJobCounts("waiting", "active", "completed", "failed");
if (counts.completed !== all || counts.waiting + counts.active + counts.failed > 0) {
  throw new Error(`jobs are left: ${JSON.stringify(counts)}`);
}
process.exit(0);
