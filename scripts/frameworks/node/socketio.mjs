// Socket.IO: a message that one server process is told reaches the clients of another.
import { fork } from "node:child_process";
import { createServer } from "node:http";
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { createAdapter as createStreams } from "@socket.io/redis-streams-adapter";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Server } from "socket.io";
import { io as connect } from "socket.io-client";
import { check, host, kill, port, run, scenario, sleep, until, version, within } from "./driver.mjs";

function ioredis() {
  return new Redis({ host, port, retryStrategy: () => 100, maxRetriesPerRequest: null }).on("error", () => {});
}

async function nodeRedis() {
  const client = createClient({ socket: { host, port, reconnectStrategy: 100 } }).on("error", () => {});
  await client.connect();
  return client;
}

async function adapter() {
  switch (scenario) {
    case "adapter":
      return createAdapter(ioredis(), ioredis());
    case "sharded":
      return createShardedAdapter(await nodeRedis(), await nodeRedis());
    default:
      return createStreams(await nodeRedis());
  }
}

/** A process with a Socket.IO server; it says to everyone what its parent asks it to. */
async function serve() {
  const http = createServer();
  const io = new Server(http, { adapter: await adapter() });
  io.on("connection", (socket) => socket.join("room"));
  process.on("message", async ({ say, ask }) => {
    if (say) io.to("room").emit("news", say);
    if (ask) {
      const sockets = await within(5000, io.fetchSockets()).catch(() => []);
      process.send({ sockets: sockets.length });
    }
  });
  http.listen(0, "127.0.0.1", () => process.send({ port: http.address().port }));
}

function server() {
  return new Promise((resolve) => {
    const child = fork("socketio.mjs", process.argv.slice(2), { env: { ...process.env, SERVE: "1" }, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    child.once("message", (said) => resolve({ child, port: said.port }));
  });
}

async function across() {
  version("socket.io", scenario === "streams" ? "@socket.io/redis-streams-adapter" : "@socket.io/redis-adapter");
  const [one, two] = [await server(), await server()];
  const heard = [new Set(), new Set()];
  const sockets = [one, two].map((of, n) => connect(`http://127.0.0.1:${of.port}`).on("news", (text) => heard[n].add(text)));
  await until("both clients are connected", () => sockets.every((socket) => socket.connected));
  let n = 0;
  const hears = (from) =>
    until("a message from the other process", async () => {
      n += 1;
      from.child.send({ say: `news${n}` });
      await sleep(60);
      return heard.every((set) => set.has(`news${n}`));
    });
  await hears(one);
  await hears(two);
  await kill();
  await hears(one);
  await hears(two);
  let seen = 0;
  one.child.on("message", (said) => (seen = said.sockets ?? seen));
  await until("one process sees the sockets of both", async () => {
    one.child.send({ ask: true });
    await sleep(300);
    return seen === 2;
  });
  if (scenario === "streams") {
    // A stream keeps what is said while the readers are away.
    const before = n;
    for (let k = 0; k < 50; k++) one.child.send({ say: `news${(n += 1)}` });
    await until("fifty messages in a row", () => [...Array(50).keys()].every((k) => heard[1].has(`news${before + 1 + k}`)));
  }
  check(heard[0].size > 0 && heard[1].size > 0, "nothing was heard");
  return "messages between two processes, before and after";
}

if (process.env.SERVE) await serve();
else run({ adapter: across, sharded: across, streams: across });
