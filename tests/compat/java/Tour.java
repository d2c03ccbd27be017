import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Use everything that the official Java SDKs can do, against a running Tandem.
 *
 * <pre>java -cp ... Tour CONNECTION_STRING LISTENING_CONNECTION_STRING HTTP_PORT CA &lt; PLAN</pre>
 *
 * Each line of PLAN names a group (servicebus, eventhubs or administration), a transport (tcp, tls or websocket), a
 * feature and the empty entity of that feature, separated by tabs. One JSON line per feature reports the outcome:
 *
 * <pre>{"group": "servicebus", "transport": "tcp", "feature": "send-one", "ok": false, "surprise": "..."}</pre>
 *
 * Several features run side by side, because most of their time is spent waiting. One virtual machine serves all.
 */
public final class Tour {
    private static final int AT_ONCE = 8;
    /** Long enough for a feature on a slow machine, short enough to report a server that does not answer. */
    private static final long FEATURE_LIMIT_S = 120;

    private static final Map<String, Map<String, Feature>> GROUPS = Map.of(
        "servicebus", merged(Messages.FEATURES, Scheduling.FEATURES, Receiving.FEATURES, Settlement.FEATURES,
            Sessions.FEATURES, Processors.FEATURES, Refusals.FEATURES, Topics.FEATURES, Rules.FEATURES,
            Transactions.FEATURES),
        "eventhubs", merged(Hubs.FEATURES, HubConsumers.FEATURES),
        "administration", merged(Administration.FEATURES, AdministrationRules.FEATURES, AdministrationErrors.FEATURES));

    private record Step(String group, String transport, String feature, String entity) { }

    @SafeVarargs
    private static Map<String, Feature> merged(Map<String, Feature>... parts) {
        Map<String, Feature> all = new HashMap<>();
        for (Map<String, Feature> part : parts) all.putAll(part);
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        Visit.Target target = new Visit.Target(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
        Trust.install(Path.of(arguments[3]));
        List<Step> steps = new ArrayList<>();
        try (BufferedReader plan = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = plan.readLine(); line != null; line = plan.readLine()) {
                String[] fields = line.split("\t");
                steps.add(new Step(fields[0], fields[1], fields[2], fields[3]));
            }
        }
        ExecutorService turns = Executors.newFixedThreadPool(AT_ONCE);
        List<Future<?>> reports = new ArrayList<>();
        for (Step step : steps) reports.add(turns.submit(() -> report(step, run(step, target))));
        for (Future<?> report : reports) report.get();
        // A feature that failed may have left threads behind; they must not keep the process alive.
        System.exit(0);
    }

    /** Run a feature and return null, or the surprise that ended it. */
    private static String run(Step step, Visit.Target target) {
        Feature feature = GROUPS.get(step.group()).get(step.feature());
        if (feature == null) return "the Java program has no such feature";
        Visit visit = new Visit(target, step.transport(), step.entity());
        try {
            within(() -> {
                feature.run(visit);
                return null;
            });
            return null;
        } catch (Throwable surprise) {
            StringWriter text = new StringWriter();
            surprise.printStackTrace(new PrintWriter(text));
            return text.toString();
        } finally {
            try {
                within(() -> {
                    visit.close();
                    return null;
                });
            } catch (Throwable ignored) {
                // The outcome of the feature is known already.
            }
        }
    }

    private static void within(Callable<Void> action) throws Throwable {
        ExecutorService own = Executors.newSingleThreadExecutor();
        try {
            own.submit(action).get(FEATURE_LIMIT_S, TimeUnit.SECONDS);
        } catch (java.util.concurrent.ExecutionException failed) {
            throw failed.getCause();
        } catch (TimeoutException late) {
            throw new AssertionError("took longer than " + FEATURE_LIMIT_S + " s");
        } finally {
            own.shutdownNow();
        }
    }

    private static synchronized void report(Step step, String surprise) {
        System.out.println("{\"group\": " + quoted(step.group()) + ", \"transport\": " + quoted(step.transport())
            + ", \"feature\": " + quoted(step.feature()) + ", \"ok\": " + (surprise == null)
            + (surprise == null ? "" : ", \"surprise\": " + quoted(surprise)) + "}");
        System.out.flush();
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') quoted.append('\\').append(letter);
            else if (letter < ' ' || letter > '~') quoted.append(String.format("\\u%04x", (int) letter));
            else quoted.append(letter);
        }
        return quoted.append('"').toString();
    }
}
