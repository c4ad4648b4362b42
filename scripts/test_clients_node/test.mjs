// The part of scripts/test-clients that uses ioredis: node test.mjs PORT
// Prints PASS or FAIL for each check, and exits with 1 if something failed.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import Redis from "ioredis";

const port = Number(process.argv[2]);
const connect = () => new Redis(port, "127.0.0.1", { maxRetriesPerRequest: 1 });
const keys = (count, prefix) => Array.from({ length: count }, (_, n) => `${prefix}:${n}`);

const checks = {
    async "binary keys and values of every byte"(client) {
        const every = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
        for (const key of [every, Buffer.alloc(0), Buffer.from("\r\n"), randomBytes(4000)]) {
            assert.equal(await client.set(key, every), "OK");
            assert.deepEqual(await client.getBuffer(key), every);
        }
        assert.equal((await client.keysBuffer("*")).length, 4);
    },
    async "large values"(client) {
        const values = [20_000, 1 << 20, 8 << 20].map((len) => randomBytes(len));
        await Promise.all(values.map((value, n) => client.set(`large:${n}`, value)));
        const got = await client.mgetBuffer(...keys(3, "large"));
        values.forEach((value, n) => assert.ok(got[n].equals(value), `value ${n}`));
    },
    async "a pipeline of 10,000"(client) {
        const pipeline = client.pipeline();
        keys(5000, "key").forEach((key, n) => pipeline.set(key, n).get(key));
        const replies = await pipeline.exec();
        assert.equal(replies.length, 10_000);
        replies.forEach(([error, reply], at) => {
            assert.equal(error, null);
            assert.equal(reply, at % 2 ? String((at - 1) / 2) : "OK");
        });
        assert.equal(await client.dbsize(), 5000);
    },
    async "10,000 requests on their way at once"(client) {
        const replies = await Promise.all(keys(10_000, "key").map((_, n) => client.incr(`n:${n % 10}`)));
        assert.equal(Math.max(...replies), 1000);
    },
    async "transactions over all partitions"(client) {
        const others = [connect(), connect(), connect()];
        const twins = keys(8, "twin");
        let stop = false;
        const writers = others.slice(1).map(async (other, name) => {
            for (let n = 0; !stop; n++) {
                const multi = other.multi();
                twins.forEach((key) => multi.set(key, `${name}:${n}`));
                const replies = await multi.exec();
                assert.ok(replies.every(([error, reply]) => error === null && reply === "OK"));
            }
        });
        for (let n = 0; n < 300; n++) {
            assert.equal(new Set(await client.mget(...twins)).size, 1);
            const read = others[0].multi();
            twins.forEach((key) => read.get(key));
            assert.equal(new Set((await read.exec()).map(([, value]) => value)).size, 1);
        }
        stop = true;
        await Promise.all(writers);
        others.forEach((other) => other.disconnect());
    },
    async "a transaction whose key changed does nothing"(client) {
        const other = connect();
        await client.watch("a", "b", "c");
        await other.set("c", 1);
        assert.equal(await client.multi().set("a", 2).exec(), null);
        assert.equal(await client.get("a"), null);
        const replies = await client.multi().set("s", "text").incr("s").set("t", 1).exec();
        assert.match(replies[1][0].message, /not an integer/);
        assert.equal(await client.get("t"), "1");
        other.disconnect();
    },
    async "SCAN while keys come and go"(client) {
        const stay = keys(3000, "stays");
        await client.mset(...stay.flatMap((key) => [key, "v"]));
        const other = connect();
        let stop = false;
        const changes = (async () => {
            for (let n = 0; !stop; n++) {
                await other.mset(`goes:${n}`, 1, `goes:${n + 1}`, 2);
                await other.del(`goes:${n - 20}`);
            }
        })();
        for (const options of [{ count: 7 }, { match: "stays:*", count: 100 }, { type: "string" }]) {
            const found = new Set();
            for await (const page of client.scanStream(options)) page.forEach((key) => found.add(key));
            assert.ok(stay.every((key) => found.has(key)), JSON.stringify(options));
        }
        stop = true;
        await changes;
        other.disconnect();
    },
    async "expiry"(client) {
        await client.set("soon", 1, "PX", 50);
        await client.set("later", 1, "EX", 100);
        assert.ok((await client.ttl("later")) > 90);
        for (let tries = 0; await client.exists("soon"); tries++) {
            assert.ok(tries < 1000, "a key of 50 ms lives on");
            await new Promise((done) => setTimeout(done, 10));
        }
    },
    async "INFO, SLOWLOG, LATENCY and MEMORY"(client) {
        await client.set("k", "v");
        const info = await client.info();
        const threads = Number(/^threads:(\d+)\r$/m.exec(info)[1]);
        assert.equal(info.match(/^partition\d+:thread=/gm).length, threads);
        await client.config("SET", "slowlog-log-slower-than", 0);
        await client.get("k");
        await client.config("SET", "slowlog-log-slower-than", 10000);
        assert.ok((await client.slowlog("GET", -1)).some((entry) => entry[3].join(" ") === "get k"));
        const histogram = await client.call("LATENCY", "HISTOGRAM", "get");
        assert.equal(histogram[0], "get");
        assert.ok((await client.memory("USAGE", "k")) > 2);
    },
};

const client = connect();
let failed = 0;
for (const [name, check] of Object.entries(checks)) {
    await client.flushall();
    try {
        await check(client);
        console.log(`PASS ioredis: ${name}`);
    } catch (error) {
        failed += 1;
        console.log(`FAIL ioredis: ${name}: ${error.stack}`);
    }
}
process.exit(failed ? 1 : 0);
