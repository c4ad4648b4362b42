// node-redis: transactions, streams with a consumer group, publish and subscribe, on RESP3.
import { createClient } from "redis";
import { check, host, kill, lost, port, produce, run, sleep, until, version, within } from "./driver.mjs";

version("redis");

async function connected(options = {}) {
  const client = createClient({ socket: { host, port, reconnectStrategy: 50 }, RESP: 3, ...options });
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function transactions() {
  const client = await connected();
  await client.mSet({ a: "100000", b: "100000" });
  const producer = produce(async (n) => {
    await client.multi().decrBy("a", 1).incrBy("b", 1).hSet("journal", `job${n}`, "1").exec();
  }, 0);
  await sleep(1000);
  await kill();
  const before = producer.acknowledged.size;
  await until("transfers again", () => producer.acknowledged.size > before + 50);
  await producer.stop();
  const [a, b] = (await client.mGet(["a", "b"])).map(Number);
  const journal = await client.hGetAll("journal");
  const moved = Object.keys(journal).length;
  check(a + b === 200000 && b - 100000 === moved, `a ${a}, b ${b}, ${moved} in the journal`);
  check(lost(producer.acknowledged, new Set(Object.keys(journal))).length === 0, "transfers are lost");
  const watching = await connected();
  await watching.watch("a");
  await client.set("a", "0");
  check(await watching.multi().set("a", "1").exec().then(() => false, () => true), "WATCH saw no change");
  return `${moved} transfers`;
}

async function streams() {
  const client = await connected();
  await client.xGroupCreate("events", "workers", "0", { MKSTREAM: true });
  const worked = new Set();
  const producer = produce((n) => client.xAdd("events", "*", { job: `job${n}` }), 0);
  for (const consumer of ["one", "two"]) {
    const own = await connected();
    (async () => {
      for (;;) {
        try {
          const claimed = await within(3000, own.xAutoClaim("events", "workers", consumer, 500, "0", { COUNT: 50 }));
          const read = await within(3000, own.xReadGroup("workers", consumer, { key: "events", id: ">" }, { COUNT: 20, BLOCK: 200 }));
          const fresh = Array.isArray(read) ? read.flatMap((stream) => stream.messages) : read ? Object.values(read).flat() : [];
          for (const { id, message } of [...claimed.messages, ...fresh]) {
            worked.add(message.job);
            await within(3000, own.xAck("events", "workers", id));
          }
        } catch {
          await sleep(50);
        }
      }
    })();
  }
  await sleep(1000);
  await kill();
  const before = worked.size;
  await until("work again", () => worked.size > before + 50);
  await producer.stop();
  await until("all work done", () => lost(producer.acknowledged, worked).length === 0);
  await until("nothing pending", async () => (await client.xPending("events", "workers")).pending === 0);
  return `${worked.size} entries worked on`;
}

async function pubsub() {
  const heard = new Set();
  const subscriber = await connected();
  await subscriber.subscribe("news", (message) => heard.add(`c${message}`));
  await subscriber.pSubscribe("ne*", (message) => heard.add(`p${message}`));
  await subscriber.sSubscribe("shard", (message) => heard.add(`s${message}`));
  const publisher = await connected();
  let n = 0;
  const hears = () =>
    until("a message by channel, pattern and shard", async () => {
      n += 1;
      await within(1000, publisher.publish("news", `${n}`));
      await within(1000, publisher.sPublish("shard", `${n}`));
      await sleep(20);
      return ["c", "p", "s"].every((kind) => heard.has(`${kind}${n}`));
    });
  await hears();
  await kill();
  await hears();
  check((await subscriber.ping()) === "PONG", "a subscriber of RESP3 may send commands");
  return "heard before and after";
}

run({ transactions, streams, pubsub });
