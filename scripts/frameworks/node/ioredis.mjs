// ioredis: a reliable queue by BLMOVE, and scripts by EVALSHA, which must be loaded again after the server was away.
import { Redis } from "ioredis";
import { check, host, kill, lost, port, produce, run, sleep, until, version, within } from "./driver.mjs";

version("ioredis");

function client() {
  const made = new Redis({ host, port, retryStrategy: () => 50, maxRetriesPerRequest: null });
  made.on("error", () => {});
  return made;
}

async function queue() {
  const [redis, done] = [client(), new Set()];
  const producer = produce((n) => redis.lpush("queue", `job${n}`), 0);
  for (const own of ["one", "two", "three"]) {
    const worker = client();
    (async () => {
      for (;;) {
        try {
          const job = await within(5000, worker.blmove("queue", own, "RIGHT", "LEFT", 1));
          if (job === null) continue;
          done.add(job);
          await worker.lrem(own, 1, job);
        } catch {
          await sleep(20);
        }
      }
    })();
  }
  await sleep(1000);
  await kill();
  const before = done.size;
  await until("work again", () => done.size > before + 50);
  await producer.stop();
  await until("all jobs are there", async () => {
    for (const own of ["one", "two", "three"]) for (const job of await redis.lrange(own, 0, -1)) done.add(job);
    return lost(producer.acknowledged, done).length === 0;
  });
  return `${done.size} jobs`;
}

async function scripts() {
  const redis = client();
  redis.defineCommand("take", {
    numberOfKeys: 2,
    lua: `local left = redis.call('DECRBY', KEYS[1], ARGV[1])
          redis.call('ZADD', KEYS[2], left, ARGV[2])
          return left`,
  });
  await redis.set("left", 1_000_000);
  const producer = produce((n) => redis.take("left", "taken", 1, `job${n}`), 0);
  await sleep(1000);
  await kill();
  const before = producer.acknowledged.size;
  await until("scripts again", () => producer.acknowledged.size > before + 50);
  await producer.stop();
  const taken = new Set(await redis.zrange("taken", 0, -1));
  check(lost(producer.acknowledged, taken).length === 0, "takings are lost");
  const results = await redis.pipeline().set("x", 1).incr("x").lpush("x", 1).exec();
  check(results[1][1] === 2 && results[2][0].message.startsWith("WRONGTYPE"), "pipeline");
  let seen = 0;
  for await (const batch of redis.zscanStream("taken")) seen += batch.length / 2;
  check(seen >= taken.size, "zscanStream");
  return `${taken.size} takings by script`;
}

run({ queue, scripts });
