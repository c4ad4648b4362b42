// rate-limiter-flexible, connect-redis and Redlock.
import { createServer } from "node:http";
import { Redis } from "ioredis";
import { check, host, kill, port, require, run, sleep, until, version, within } from "./driver.mjs";

function client() {
  return new Redis({ host, port, retryStrategy: () => 50, maxRetriesPerRequest: 1 }).on("error", () => {});
}

/** A limit of 300 points an hour: no more may be allowed in all, whatever happens to the server in between. */
async function limiter() {
  version("rate-limiter-flexible");
  const { RateLimiterRedis } = require("rate-limiter-flexible");
  const limit = new RateLimiterRedis({ storeClient: client(), points: 300, duration: 3600, keyPrefix: "limit" });
  let [allowed, refused, killed] = [0, 0, false];
  for (let n = 0; refused < 20; n++) {
    try {
      await within(1000, limit.consume("user"));
      allowed += 1;
    } catch (error) {
      if (error instanceof Error) await sleep(20);
      else refused += 1;
    }
    if (allowed >= 150 && !killed) {
      killed = true;
      await kill();
    }
    check(n < 5000, "the limit is never reached");
  }
  check(allowed <= 300, `${allowed} of 300 were allowed`);
  check(allowed >= 295, `${allowed} of 300 were allowed: more than the request in flight is lost`);
  return `${allowed} of 300 points`;
}

/** Sessions of Express: each visit is counted in the session. */
async function sessions() {
  version("connect-redis", "express-session", "express");
  const express = require("express");
  const session = require("express-session");
  const { RedisStore } = await import("connect-redis");
  const { createClient } = await import("redis");
  const redis = createClient({ socket: { host, port, reconnectStrategy: 50 } }).on("error", () => {});
  await redis.connect();
  const app = express();
  app.use(session({ store: new RedisStore({ client: redis }), secret: "secret", resave: false, saveUninitialized: false }));
  app.get("/", (request, response) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.json(request.session.visits);
  });
  const http = createServer(app);
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const visitors = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const answer = await fetch(`http://127.0.0.1:${http.address().port}/`);
      return { cookie: answer.headers.get("set-cookie").split(";")[0], visits: await answer.json() };
    }),
  );
  const visit = async (visitor) => {
    const answer = await within(3000, fetch(`http://127.0.0.1:${http.address().port}/`, { headers: visitor }));
    check(answer.ok, `status ${answer.status}`);
    const visits = await answer.json();
    check(visits >= visitor.visits + 1, `a session went from ${visitor.visits} visits to ${visits}`);
    visitor.visits = visits;
  };
  for (let n = 0; n < 20; n++) await Promise.all(visitors.map(visit));
  await kill();
  await until("sessions are there", () => visit(visitors[0]).then(() => true));
  for (let n = 0; n < 20; n++) await Promise.all(visitors.map(visit));
  check(visitors.every((visitor) => visitor.visits >= 41), "visits are lost");
  return "20 sessions of 41 visits";
}

async function redlock() {
  version("redlock", "ioredis");
  const Redlock = require("redlock");
  const redis = client();
  const locks = new Redlock([redis], { retryCount: 300, retryDelay: 20, retryJitter: 10 });
  locks.on("clientError", () => {});
  let [inside, counted, stopped] = [0, 0, false];
  const workers = Array.from({ length: 4 }, async () => {
    while (!stopped) {
      let lock = null;
      try {
        lock = await within(8000, locks.lock("lock", 2000));
        inside += 1;
        check(inside === 1, "two hold the lock");
        const value = Number(await redis.get("counter"));
        await redis.set("counter", Math.max(value, counted) + 1);
        counted += 1;
      } catch (error) {
        if (String(error).includes("two hold")) throw error;
      } finally {
        if (lock) inside -= 1;
      }
      await lock?.unlock().catch(() => {});
    }
  });
  await sleep(1000);
  await kill();
  const before = counted;
  await until("locks again", () => counted > before + 20);
  stopped = true;
  await Promise.all(workers);
  const stored = Number(await redis.get("counter"));
  check(stored >= counted, `${stored} counted, ${counted} acknowledged`);
  return `${stored} counts under the lock`;
}

run({ limiter, sessions, redlock });
