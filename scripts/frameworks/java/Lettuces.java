package frameworks;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** Lettuce, which connects again by itself: pipelines of commands, publish and subscribe, client-side caching. */
public final class Lettuces {
    public static void main(String[] arguments) {
        Driver.version("lettuce", RedisClient.class);
        Driver.run(arguments, (host, port) -> {
            RedisClient client = RedisClient.create(RedisURI.builder().withHost(host).withPort(port).withTimeout(Duration.ofSeconds(20)).build());
            client.setOptions(ClientOptions.builder().autoReconnect(true).build());
            return switch (arguments[0]) {
                case "async" -> async(client);
                case "pubsub" -> pubsub(client);
                case "caching" -> caching(client);
                default -> throw new AssertionError("no such scenario");
            };
        });
    }

    /** Writes many commands without waiting; those without an answer at the kill are sent again by the client. */
    private static String async(RedisClient client) throws Exception {
        StatefulRedisConnection<String, String> connection = client.connect();
        RedisAsyncCommands<String, String> commands = connection.async();
        Set<Integer> acknowledged = ConcurrentHashMap.newKeySet();
        AtomicBoolean stop = new AtomicBoolean();
        Thread writer = new Thread(() -> {
            for (int n = 0; !stop.get(); n += 50) {
                List<RedisFuture<?>> futures = new ArrayList<>();
                for (int k = n; k < n + 50; k++) {
                    int number = k;
                    RedisFuture<Long> pushed = commands.zadd("set", number, "member" + number);
                    pushed.thenAccept(reply -> acknowledged.add(number));
                    futures.add(pushed);
                }
                for (RedisFuture<?> future : futures) {
                    try {
                        future.get(20, TimeUnit.SECONDS);
                    } catch (Exception away) {
                        // It was not acknowledged.
                    }
                }
            }
        });
        writer.start();
        Thread.sleep(1000);
        Driver.kill();
        int before = acknowledged.size();
        Driver.until("writes again", () -> acknowledged.size() > before + 200);
        stop.set(true);
        writer.join(25_000);
        RedisCommands<String, String> sync = client.connect().sync();
        for (int number : acknowledged) {
            Double score = sync.zscore("set", "member" + number);
            Driver.check(score != null && score == number, "member" + number + " is lost");
        }
        sync.multi();
        sync.incr("n");
        sync.hset("h", Map.of("a", "1", "b", "2"));
        TransactionResult result = sync.exec();
        Driver.check(result.size() == 2 && result.<Long>get(0) == 1L && result.<Long>get(1) == 2L, "transaction: " + result);
        Driver.check(client.connect().reactive().hgetall("h").count().block() == 2, "reactive");
        return acknowledged.size() + " members by asynchronous commands";
    }

    private static String pubsub(RedisClient client) throws Exception {
        Set<String> heard = ConcurrentHashMap.newKeySet();
        StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub();
        subscriber.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String message) {
                heard.add("c" + message);
            }

            @Override
            public void message(String pattern, String channel, String message) {
                heard.add("p" + message);
            }
        });
        subscriber.sync().subscribe("news");
        subscriber.sync().psubscribe("ne*");
        RedisCommands<String, String> publisher = client.connect().sync();
        publisher.publish("news", "before");
        Driver.until("a message", () -> heard.contains("cbefore") && heard.contains("pbefore"));
        Driver.kill();
        AtomicInteger number = new AtomicInteger();
        Driver.until("a message after the kill", () -> {
            int n = number.incrementAndGet();
            publisher.publish("news", "" + n);
            return heard.contains("c" + (n - 1)) && heard.contains("p" + (n - 1));
        });
        return "heard by channel and by pattern";
    }

    /** A cache of this process is told of other clients' changes (CLIENT TRACKING, pushes of RESP3). */
    private static String caching(RedisClient client) throws Exception {
        RedisCommands<String, String> other = client.connect().sync();
        for (int life = 0; life < 2; life++) {
            StatefulRedisConnection<String, String> connection = client.connect();
            Map<String, String> kept = new ConcurrentHashMap<>();
            CacheFrontend<String, String> cache = ClientSideCaching.enable(CacheAccessor.forMap(kept), connection, TrackingArgs.Builder.enabled());
            String first = "value" + life;
            Driver.insist(() -> other.set("key", first));
            Driver.check(first.equals(cache.get("key")) && first.equals(kept.get("key")), "the value is not kept");
            other.set("key", "changed" + life);
            Driver.until("an invalidation", () -> !kept.containsKey("key"));
            Driver.check(("changed" + life).equals(cache.get("key")), "the change is not seen");
            if (life == 0) {
                Driver.kill();
            }
        }
        return "invalidations before and after";
    }
}
