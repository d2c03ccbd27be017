import java.io.PrintStream;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.LoggerFactory;

/** Reports what happens to each message, one line with tabs for each event, to the test that started the program. */
final class Journal {
    /** An attempt to send one message. */
    interface Attempt {
        void run() throws Exception;
    }

    private static final long PAUSE_MS = 100;
    private static final PrintStream OUTPUT = System.out;
    private static final Set<String> FAILED = ConcurrentHashMap.newKeySet();

    private Journal() { }

    /** Keep the standard output for the journal: frameworks write their logs there as well. */
    static void open() {
        System.setOut(System.err);
    }

    static void write(String event, String place, int number) {
        synchronized (OUTPUT) {
            OUTPUT.print(event + "\t" + place + "\t" + number + "\n");
            OUTPUT.flush();
        }
    }

    /** Send until the framework reports success. What is written as sent must never be lost. */
    static void send(String place, int number, Attempt attempt) {
        while (true) {
            try {
                attempt.run();
                write("sent", place, number);
                return;
            } catch (Exception error) {
                LoggerFactory.getLogger(Journal.class).warn("sending {} to {} again: {}", number, place, error.toString());
                pause();
            }
        }
    }

    /** Send the numbers below a count to a place, in a thread of its own. */
    static void sendAll(String place, int count, java.util.function.IntConsumer send) {
        Thread thread = new Thread(() -> {
            for (int number = 0; number < count; number++) {
                int current = number;
                send(place, current, () -> send.accept(current));
            }
        }, "send-" + place);
        thread.setDaemon(true);
        thread.start();
    }

    /** One message in ten fails the first time that a place handles it. */
    static boolean failsNow(String place, int number) {
        boolean fails = number % 10 == 4 && FAILED.add(place + "/" + number);
        if (fails) {
            write("failed", place, number);
        }
        return fails;
    }

    /** One message in 25 cannot be handled at all. */
    static boolean isPoisoned(String place, int number) {
        boolean isPoisoned = number % 25 == 7;
        if (isPoisoned) {
            write("poisoned", place, number);
        }
        return isPoisoned;
    }

    /** Handle a message as most places do: throw if it fails now or always. */
    static void handle(String place, int number) {
        if (isPoisoned(place, number) || failsNow(place, number)) {
            throw new IllegalStateException("cannot handle " + number);
        }
        write("handled", place, number);
    }

    /** Handle a message that was sent with the time before which it must not arrive. */
    static void handleReminder(int number, long dueMs) {
        write(System.currentTimeMillis() < dueMs ? "early" : "handled", "reminders", number);
    }

    /** Report that all consumers were started, and wait until the test closes the standard input. */
    static void waitForEnd() throws Exception {
        write("ready", "-", 0);
        while (System.in.read() >= 0) { }
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
