package frameworks;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;

/** Jedis: transactions, publish and subscribe, consumer groups of streams. */
public final class Jedises {
    public static void main(String[] arguments) {
        Driver.version("jedis", RedisClient.class);
        Driver.run(arguments, (host, port) -> {
            RedisClient client = RedisClient.create(host, port);
            return switch (arguments[0]) {
                case "transactions" -> transactions(client);
                case "pubsub" -> pubsub(client, host, port);
                case "streams" -> streams(client);
                default -> throw new AssertionError("no such scenario");
            };
        });
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Transfers between two accounts: the sum stays, and the journal has every acknowledged transfer. */
    private static String transactions(RedisClient client) throws Exception {
        client.mset("a", "1000000", "b", "1000000");
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        AtomicBoolean stop = new AtomicBoolean();
        Thread[] threads = new Thread[4];
        for (int t = 0; t < threads.length; t++) {
            int thread = t;
            threads[t] = start(() -> {
                for (int n = 0; !stop.get(); n++) {
                    String id = thread + ":" + n;
                    try (AbstractTransaction transaction = client.multi()) {
                        Response<Long> left = transaction.decrBy("a", 1);
                        transaction.incrBy("b", 1);
                        transaction.hset("journal", id, "1");
                        if (transaction.exec() != null && left.get() != null) {
                            acknowledged.add(id);
                        }
                    } catch (Exception away) {
                        // It was not acknowledged.
                    }
                }
            });
        }
        Thread.sleep(1000);
        Driver.kill();
        int before = acknowledged.size();
        Driver.until("transfers again", () -> acknowledged.size() > before + 50);
        stop.set(true);
        for (Thread thread : threads) {
            thread.join(5000);
        }
        Map<String, String> journal = client.hgetAll("journal");
        List<String> sums = client.mget("a", "b");
        long moved = 1_000_000 - Long.parseLong(sums.get(0));
        Driver.check(Long.parseLong(sums.get(1)) == 1_000_000 + moved, "money was made: " + sums);
        Driver.check(moved == journal.size(), moved + " moved, " + journal.size() + " in the journal");
        acknowledged.removeAll(journal.keySet());
        Driver.check(acknowledged.isEmpty(), acknowledged.size() + " transfers are lost");
        return moved + " transfers";
    }

    private static String pubsub(RedisClient client, String host, int port) throws Exception {
        Set<String> heard = ConcurrentHashMap.newKeySet();
        start(() -> {
            while (true) {
                try (RedisClient own = RedisClient.create(host, port)) {
                    own.psubscribe(new JedisPubSub() {
                        @Override
                        public void onPMessage(String pattern, String channel, String message) {
                            heard.add(message);
                        }
                    }, "news.*");
                } catch (Exception away) {
                    pause();
                }
            }
        });
        AtomicInteger number = new AtomicInteger();
        for (int life = 0; life < 2; life++) {
            int first = number.get();
            Driver.until("a message in life " + life, () -> {
                client.publish("news.x", "m" + number.incrementAndGet());
                return heard.stream().anyMatch(message -> Integer.parseInt(message.substring(1)) > first);
            });
            if (life == 0) {
                Driver.kill();
            }
        }
        return "heard before and after";
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static String streams(RedisClient client) throws Exception {
        client.xgroupCreate("events", "workers", StreamEntryID.XGROUP_LAST_ENTRY, true);
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        Set<String> worked = ConcurrentHashMap.newKeySet();
        AtomicBoolean stop = new AtomicBoolean();
        Thread producer = start(() -> {
            for (int n = 0; !stop.get(); n++) {
                try {
                    client.xadd("events", StreamEntryID.NEW_ENTRY, Map.of("job", "job" + n));
                    acknowledged.add("job" + n);
                } catch (Exception away) {
                    pause();
                }
            }
        });
        for (int c = 0; c < 2; c++) {
            String consumer = "consumer" + c;
            start(() -> {
                while (true) {
                    try {
                        consume(client, consumer, worked);
                    } catch (Exception away) {
                        pause();
                    }
                }
            });
        }
        Thread.sleep(1000);
        Driver.kill();
        int before = worked.size();
        Driver.until("work again", () -> worked.size() > before + 50);
        stop.set(true);
        producer.join(5000);
        Driver.until("all work done", () -> worked.containsAll(acknowledged));
        Driver.until("nothing pending", () -> client.xpending("events", "workers").getTotal() == 0);
        return worked.size() + " entries worked on";
    }

    private static void consume(RedisClient client, String consumer, Set<String> worked) {
        List<StreamEntry> entries = client.xautoclaim("events", "workers", consumer, 500, new StreamEntryID(), new XAutoClaimParams().count(50)).getValue();
        if (entries.isEmpty()) {
            List<Map.Entry<String, List<StreamEntry>>> read = client.xreadGroup("workers", consumer,
                new XReadGroupParams().count(20).block(200), Map.of("events", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
            entries = read == null || read.isEmpty() ? Collections.emptyList() : read.get(0).getValue();
        }
        for (StreamEntry entry : entries) {
            worked.add(entry.getFields().get("job"));
            client.xack("events", "workers", entry.getID());
        }
    }
}
