package frameworks;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.EventListener;
import org.springframework.data.annotation.Id;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.core.RedisHash;
import org.springframework.data.redis.core.RedisKeyValueAdapter;
import org.springframework.data.redis.core.RedisKeyExpiredEvent;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.TimeToLive;
import org.springframework.data.redis.core.index.Indexed;
import org.springframework.data.redis.core.script.DefaultRedisScript;
import org.springframework.data.redis.listener.PatternTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.data.redis.repository.configuration.EnableRedisRepositories;
import org.springframework.data.repository.CrudRepository;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.data.redis.RedisIndexedSessionRepository;
import org.springframework.session.data.redis.config.annotation.web.http.EnableRedisIndexedHttpSession;
import org.springframework.session.events.SessionExpiredEvent;

/** Spring Data Redis (templates, repositories, listeners) and Spring Session. */
public final class Springs {
    private static final Set<String> EXPIRED = ConcurrentHashMap.newKeySet();

    @RedisHash("people")
    static class Person {
        @Id String id;
        @Indexed String town;
        String name;
        @TimeToLive Long life;

        Person(String id, String town, String name, Long life) {
            this.id = id;
            this.town = town;
            this.name = name;
            this.life = life;
        }
    }

    interface People extends CrudRepository<Person, String> {
        List<Person> findByTown(String town);
    }

    @Configuration
    @EnableAutoConfiguration
    @EnableRedisRepositories(considerNestedRepositories = true, enableKeyspaceEvents = RedisKeyValueAdapter.EnableKeyspaceEvents.ON_STARTUP)
    static class Data {
        @Bean
        RedisMessageListenerContainer listeners(RedisConnectionFactory factory) {
            RedisMessageListenerContainer container = new RedisMessageListenerContainer();
            container.setConnectionFactory(factory);
            container.setRecoveryInterval(300);
            container.addMessageListener((message, pattern) -> HEARD.add(new String(message.getBody())), new PatternTopic("news.*"));
            return container;
        }

        @EventListener
        void expired(RedisKeyExpiredEvent<?> event) {
            EXPIRED.add(new String(event.getId()));
        }
    }

    private static final Set<String> HEARD = ConcurrentHashMap.newKeySet();

    public static void main(String[] arguments) {
        Driver.version("spring-data-redis", StringRedisTemplate.class);
        Driver.run(arguments, (host, port) -> {
            boolean sessions = arguments[0].equals("sessions");
            SpringApplication application = new SpringApplication(sessions ? Sessions.class : Data.class);
            application.setDefaultProperties(Map.of("spring.data.redis.host", host, "spring.data.redis.port", port,
                "spring.data.redis.timeout", "20s", "logging.level.root", "ERROR", "spring.main.web-application-type", "none", "spring.main.banner-mode", "off"));
            ConfigurableApplicationContext context = application.run();
            return switch (arguments[0]) {
                case "templates" -> templates(context.getBean(StringRedisTemplate.class));
                case "repositories" -> repositories(context.getBean(People.class), context.getBean(StringRedisTemplate.class));
                case "messages" -> messages(context.getBean(StringRedisTemplate.class));
                case "sessions" -> sessions(context.getBean(RedisIndexedSessionRepository.class), context.getBean(StringRedisTemplate.class));
                default -> throw new AssertionError("no such scenario");
            };
        });
    }

    private static String templates(StringRedisTemplate template) throws Exception {
        AtomicInteger done = new AtomicInteger();
        DefaultRedisScript<Long> script = new DefaultRedisScript<>("redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('LLEN', KEYS[1])", Long.class);
        Thread writer = new Thread(() -> {
            for (int n = 1; n <= 1500; n++) {
                String number = String.valueOf(n);
                try {
                    Driver.insist(() -> {
                        template.opsForHash().put("hash", number, number);
                        template.opsForZSet().add("scores", number, Double.parseDouble(number));
                        return template.execute(script, List.of("list"), number);
                    });
                    Driver.insist(() -> template.execute(new SessionCallback<List<Object>>() {
                        @Override
                        @SuppressWarnings("unchecked")
                        public <K, V> List<Object> execute(RedisOperations<K, V> operations) {
                            operations.multi();
                            operations.opsForValue().increment((K) "count");
                            operations.opsForSet().add((K) "members", (V) number);
                            return operations.exec();
                        }
                    }));
                    done.set(n);
                } catch (Exception error) {
                    error.printStackTrace(System.out);
                    return;
                }
            }
        });
        writer.setDaemon(true);
        writer.start();
        Driver.until("writes", () -> done.get() > 200);
        Driver.kill();
        Driver.until("all writes", () -> done.get() == 1500);
        Driver.check(template.opsForHash().size("hash") == 1500, "the hash has lost fields");
        Driver.check(template.opsForZSet().zCard("scores") == 1500, "the sorted set has lost members");
        Driver.check(template.opsForSet().size("members") == 1500, "the set has lost members");
        Driver.check(Set.copyOf(template.opsForList().range("list", 0, -1)).size() == 1500, "the list has lost elements");
        Driver.check(Long.parseLong(template.opsForValue().get("count")) >= 1500, "the count has lost increments");
        return "1500 rounds of hash, sorted set, script and transaction";
    }

    /** Spring asks for notifications when it starts; a server that starts later has to be told again, as Redis has. */
    private static void notifyAgain(StringRedisTemplate template) throws Exception {
        Driver.insist(() -> {
            template.getConnectionFactory().getConnection().serverCommands().setConfig("notify-keyspace-events", "Egx");
            return true;
        });
    }

    private static String repositories(People people, StringRedisTemplate template) throws Exception {
        for (int n = 0; n < 300; n++) {
            people.save(new Person("p" + n, "town" + n % 3, "name" + n, null));
        }
        people.save(new Person("short", "town0", "lives a moment", 1L));
        Driver.kill();
        notifyAgain(template);
        Driver.until("people are found", () -> people.findByTown("town0").size() >= 100);
        for (int n = 300; n < 600; n++) {
            int number = n;
            Driver.insist(() -> people.save(new Person("p" + number, "town" + number % 3, "name" + number, null)));
        }
        for (int n = 0; n < 600; n++) {
            Optional<Person> found = people.findById("p" + n);
            Driver.check(found.isPresent() && found.get().name.equals("name" + n), "p" + n + " is lost");
        }
        Driver.insist(() -> people.save(new Person("brief", "town1", "lives a moment", 1L)));
        Driver.until("a person expires, by an event", () -> EXPIRED.contains("brief"));
        Driver.until("the index forgets it", () -> people.findByTown("town1").size() == 200);
        people.deleteById("p0");
        Driver.check(people.findById("p0").isEmpty(), "delete");
        return "600 people with an index, expiry events";
    }

    private static String messages(StringRedisTemplate template) throws Exception {
        AtomicInteger number = new AtomicInteger();
        for (int life = 0; life < 2; life++) {
            int first = number.get();
            Driver.until("a message in life " + life, () -> {
                template.convertAndSend("news.x", "" + number.incrementAndGet());
                return HEARD.stream().anyMatch(message -> Integer.parseInt(message) > first);
            });
            if (life == 0) {
                Driver.kill();
            }
        }
        return "heard before and after";
    }

    @Configuration
    @EnableAutoConfiguration
    @EnableRedisIndexedHttpSession(maxInactiveIntervalInSeconds = 600)
    static class Sessions {
        @EventListener
        void expired(SessionExpiredEvent event) {
            EXPIRED.add(event.getSessionId());
        }
    }

    private static String sessions(RedisIndexedSessionRepository repository, StringRedisTemplate template) throws Exception {
        return keep(repository, template);
    }

    /** Sessions survive; those of a user are found; one that nobody uses ends with an event. */
    private static <S extends org.springframework.session.Session> String keep(FindByIndexNameSessionRepository<S> repository, StringRedisTemplate template) throws Exception {
        Driver.say("version spring-session " + RedisIndexedSessionRepository.class.getProtectionDomain().getCodeSource().getLocation().getPath().replaceAll(".*-(\\d[^/]*)\\.jar$", "$1"));
        Set<String> ids = ConcurrentHashMap.newKeySet();
        Thread writer = new Thread(() -> {
            for (int n = 0; n < 400; n++) {
                try {
                    Driver.insist(() -> {
                        S session = repository.createSession();
                        session.setAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME, "user");
                        session.setAttribute("cart", "things");
                        repository.save(session);
                        return ids.add(session.getId());
                    });
                } catch (Exception error) {
                    error.printStackTrace(System.out);
                }
            }
        });
        writer.setDaemon(true);
        writer.start();
        Driver.until("sessions", () -> ids.size() > 100);
        Driver.kill();
        notifyAgain(template);
        Driver.until("all sessions", () -> ids.size() >= 400);
        for (String id : ids) {
            S session = repository.findById(id);
            Driver.check(session != null && "things".equals(session.getAttribute("cart")), "a session is lost");
        }
        Driver.check(repository.findByPrincipalName("user").keySet().containsAll(ids), "the index has lost sessions");
        S brief = repository.createSession();
        brief.setMaxInactiveInterval(Duration.ofSeconds(1));
        repository.save(brief);
        Driver.until("a session expires, by an event", () -> repository.findById(brief.getId()) == null && EXPIRED.contains(brief.getId()));
        return ids.size() + " sessions";
    }
}
