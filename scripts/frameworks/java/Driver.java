package frameworks;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/** The program's side of the talk with the driver, and what several programs need. */
final class Driver {
    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    /** A scenario, which says how it went. */
    interface Job {
        String run(String host, int port) throws Exception;
    }

    private Driver() {}

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Has the server killed, and waits until it is back. */
    static void kill() throws IOException {
        say("kill");
        INPUT.readLine();
    }

    static void version(String name, Class<?> of) {
        String place = of.getProtectionDomain().getCodeSource().getLocation().getPath();
        say("version " + name + " " + place.replaceAll(".*-(\\d[^/]*)\\.jar$", "$1"));
    }

    static void check(boolean holds, String why) {
        if (!holds) {
            throw new AssertionError(why);
        }
    }

    /** Calls until it succeeds: for the time in which the server is away. */
    static <T> T insist(Callable<T> call) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (true) {
            try {
                return call.call();
            } catch (Exception error) {
                if (System.nanoTime() > end) {
                    throw error;
                }
                Thread.sleep(50);
            }
        }
    }

    /** Waits until the condition holds. */
    static void until(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(25);
        while (true) {
            try {
                if (holds.call()) {
                    return;
                }
            } catch (Exception away) {
                // The server may be away: it is asked again.
            }
            check(System.nanoTime() < end, "not in time: " + what);
            Thread.sleep(20);
        }
    }

    static void run(String[] arguments, Job job) {
        try {
            say("pass " + job.run(arguments[1], Integer.parseInt(arguments[2])));
        } catch (Throwable error) {
            error.printStackTrace(System.out);
            say("fail " + String.valueOf(error).replace('\n', ' '));
        }
        System.exit(0);
    }
}
