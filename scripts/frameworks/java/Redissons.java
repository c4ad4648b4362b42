package frameworks;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBucket;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RScoredSortedSet;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTopic;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson: locks, maps, queues, delayed queues and topics. */
public final class Redissons {
    private static final int THREADS = 6;

    public static void main(String[] arguments) {
        Driver.version("redisson", Redisson.class);
        Driver.run(arguments, (host, port) -> {
            RedissonClient client = client(host, port);
            return switch (arguments[0]) {
                case "locks" -> locks(client);
                case "maps" -> maps(client);
                case "queues" -> queues(client);
                case "delayed" -> delayed(client);
                case "topics" -> topics(client);
                default -> throw new AssertionError("no such scenario");
            };
        });
    }

    private static RedissonClient client(String host, int port) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress("redis://" + host + ":" + port)
            .setConnectionMinimumIdleSize(4).setConnectionPoolSize(24)
            .setRetryAttempts(20).setTimeout(2000);
        return Redisson.create(config);
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Threads count under a lock, which one of them at most may hold; no count that was acknowledged may be lost. */
    private static String locks(RedissonClient client) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger counted = new AtomicInteger();
        AtomicBoolean overlap = new AtomicBoolean();
        AtomicBoolean stop = new AtomicBoolean();
        RBucket<String> counter = client.getBucket("counter");
        counter.set("0");
        Thread[] threads = new Thread[THREADS];
        for (int n = 0; n < THREADS; n++) {
            boolean fair = n % 2 == 0;
            threads[n] = start(() -> {
                RLock lock = client.getLock("lock");
                RLock own = client.getFairLock("fair");
                while (!stop.get()) {
                    try {
                        RLock first = fair ? own : lock;
                        if (fair) {
                            own.lock(8, TimeUnit.SECONDS);
                        }
                        lock.lock(8, TimeUnit.SECONDS);
                        overlap.compareAndSet(false, inside.incrementAndGet() > 1);
                        counter.set(String.valueOf(Integer.parseInt(counter.get()) + 1));
                        counted.incrementAndGet();
                        inside.decrementAndGet();
                        lock.unlock();
                        if (fair) {
                            first.unlock();
                        }
                    } catch (Exception away) {
                        inside.updateAndGet(value -> Math.max(0, value - (lock.isHeldByCurrentThread() ? 1 : 0)));
                        release(lock);
                        release(own);
                    }
                }
            });
        }
        Thread.sleep(1200);
        Driver.kill();
        int before = counted.get();
        Driver.until("locks are taken again", () -> counted.get() > before + 10);
        stop.set(true);
        for (Thread thread : threads) {
            thread.join(15_000);
        }
        int stored = Integer.parseInt(counter.get());
        Driver.check(!overlap.get(), "two threads held the lock at once");
        Driver.check(stored >= counted.get(), stored + " counted, " + counted.get() + " acknowledged");
        RSemaphore semaphore = client.getSemaphore("semaphore");
        semaphore.trySetPermits(2);
        Driver.check(semaphore.tryAcquire() && semaphore.tryAcquire() && !semaphore.tryAcquire(), "semaphore");
        return counted.get() + " counts under the lock";
    }

    private static void release(RLock lock) {
        try {
            if (lock.isHeldByCurrentThread()) {
                lock.unlock();
            }
        } catch (Exception notHeld) {
            // Its lease has run out.
        }
    }

    private static String maps(RedissonClient client) throws Exception {
        RMap<String, String> map = client.getMap("map");
        RMapCache<String, String> cache = client.getMapCache("cache");
        RScoredSortedSet<String> scores = client.getScoredSortedSet("scores");
        AtomicInteger done = new AtomicInteger();
        AtomicBoolean stop = new AtomicBoolean();
        Thread writer = start(() -> {
            for (int n = 1; !stop.get(); n++) {
                int number = n;
                try {
                    Driver.insist(() -> map.fastPut("field" + number, "value" + number));
                    Driver.insist(() -> cache.fastPut("field" + number, "value" + number, 100, TimeUnit.SECONDS));
                    Driver.insist(() -> scores.add(number, "member" + number));
                    done.set(number);
                } catch (Exception error) {
                    error.printStackTrace(System.out);
                    return;
                }
            }
        });
        Thread.sleep(1000);
        Driver.kill();
        int before = done.get();
        Driver.until("the map is written to again", () -> done.get() > before + 50);
        stop.set(true);
        writer.join(10_000);
        for (int n = 1; n <= done.get(); n++) {
            Driver.check(("value" + n).equals(map.get("field" + n)), "field" + n + " is lost from the map");
            Driver.check(("value" + n).equals(cache.get("field" + n)), "field" + n + " is lost from the cache");
        }
        Driver.check(scores.rank("member" + done.get()) == done.get() - 1, "rank");
        Driver.check(map.putIfAbsent("field1", "other").equals("value1"), "putIfAbsent");
        Object sum = ((RMap<?, ?>) map).size();
        Driver.check(sum.equals(done.get()) || sum.equals(done.get() + 1), "size " + sum);
        cache.put("soon", "gone", 100, TimeUnit.MILLISECONDS);
        Driver.until("an entry expires", () -> cache.get("soon") == null);
        return done.get() + " entries in a map, a cache and a sorted set";
    }

    /** Every element that was offered is polled at least once; the consumer's own record is a set of this process. */
    private static String queues(RedissonClient client) throws Exception {
        RBlockingQueue<String> queue = client.getBlockingQueue("queue");
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        Set<String> taken = ConcurrentHashMap.newKeySet();
        AtomicBoolean stop = new AtomicBoolean();
        AtomicBoolean pause = new AtomicBoolean();
        Thread producer = start(() -> {
            for (int n = 0; !stop.get(); n++) {
                String element = "job" + n;
                try {
                    if (queue.offer(element)) {
                        acknowledged.add(element);
                    }
                } catch (Exception away) {
                    // It was not acknowledged.
                }
            }
        });
        for (int n = 0; n < 3; n++) {
            String own = "own" + n;
            start(() -> {
                RBlockingQueue<String> kept = client.getBlockingQueue(own);
                while (true) {
                    try {
                        String moved = queue.pollLastAndOfferFirstTo(own, 1, TimeUnit.SECONDS);
                        if (moved != null && !pause.get()) {
                            taken.add(moved);
                        }
                    } catch (Exception away) {
                        // A message that was moved without an answer lies in the consumer's own list.
                    }
                    if (stop.get() && queue.isEmpty()) {
                        return;
                    }
                }
            });
        }
        Thread.sleep(1000);
        Driver.kill();
        int before = taken.size();
        Driver.until("elements arrive again", () -> taken.size() > before + 50);
        stop.set(true);
        producer.join(10_000);
        Driver.until("the queue is empty", queue::isEmpty);
        for (int n = 0; n < 3; n++) {
            taken.addAll(client.<String>getList("own" + n).readAll());
        }
        acknowledged.removeAll(taken);
        Driver.check(acknowledged.isEmpty(), acknowledged.size() + " elements are lost: " + acknowledged);
        return taken.size() + " elements through a queue";
    }

    private static String delayed(RedissonClient client) throws Exception {
        RBlockingQueue<String> queue = client.getBlockingQueue("ready");
        RDelayedQueue<String> delayed = client.getDelayedQueue(queue);
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        Set<String> arrived = ConcurrentHashMap.newKeySet();
        for (int n = 0; n < 60; n++) {
            delayed.offer("job" + n, 300 + 50L * n, TimeUnit.MILLISECONDS);
            acknowledged.add("job" + n);
        }
        start(() -> {
            while (true) {
                try {
                    // Elements stay in the list until they are noted: a pop whose reply is lost would lose them.
                    arrived.addAll(queue.readAll());
                    Thread.sleep(50);
                } catch (Exception away) {
                    // It asks again.
                }
            }
        });
        Driver.until("the first arrive", () -> arrived.size() > 5);
        Driver.check(arrived.size() < 60, "all arrived at once");
        Driver.kill();
        Driver.until("all delayed elements arrive", () -> arrived.containsAll(acknowledged));
        return arrived.size() + " delayed elements";
    }

    private static String topics(RedissonClient client) throws Exception {
        Map<String, AtomicInteger> heard = new ConcurrentHashMap<>();
        RTopic topic = client.getTopic("topic");
        topic.addListener(String.class, (channel, text) -> heard.computeIfAbsent(text, t -> new AtomicInteger()).incrementAndGet());
        client.getPatternTopic("top*").addListener(String.class, (pattern, channel, text) -> heard.computeIfAbsent("p" + text, t -> new AtomicInteger()).incrementAndGet());
        Driver.check(topic.publish("before") >= 1, "no receiver");
        Driver.until("a message", () -> heard.containsKey("before") && heard.containsKey("pbefore"));
        Driver.kill();
        AtomicInteger number = new AtomicInteger();
        Driver.until("a message after the kill, by channel and by pattern", () -> {
            topic.publish("after" + number.incrementAndGet());
            return heard.containsKey("after" + (number.get() - 1)) && heard.containsKey("pafter" + (number.get() - 1));
        });
        return "both listeners heard again";
    }
}
