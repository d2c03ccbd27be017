import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import java.time.Duration;
import java.util.Objects;
import java.util.function.BooleanSupplier;

/** What the features say about what they see. */
final class Check {
    private Check() { }

    static void that(boolean isSo, String what) {
        if (!isSo) throw new AssertionError(what);
    }

    static void same(Object expected, Object actual) {
        that(Objects.equals(expected, actual), "expected " + described(expected) + ", saw " + described(actual));
    }

    private static String described(Object value) {
        return value == null ? "null" : value + " (" + value.getClass().getSimpleName() + ")";
    }

    static <T extends Comparable<? super T>> void rising(T before, T after) {
        that(before.compareTo(after) < 0, after + " is not after " + before);
    }

    /** Insist that Service Bus refuses, for this reason. Return the message of the error. */
    static String refused(ServiceBusFailureReason reason, Action action) throws Exception {
        ServiceBusException error = raised(ServiceBusException.class, action);
        if (!reason.equals(error.getReason())) {
            throw new AssertionError("expected " + reason + ", saw " + error.getReason(), error);
        }
        return error.getMessage();
    }

    /** Insist on this condition of AMQP, where the SDK turns it into no reason of its own. Return the message. */
    static String refused(AmqpErrorCondition condition, Action action) throws Exception {
        AmqpException error = raised(AmqpException.class, action);
        if (condition != error.getErrorCondition()) {
            throw new AssertionError("expected " + condition + ", saw " + error.getErrorCondition(), error);
        }
        return error.getMessage();
    }

    /** Insist on a refusal for which the SDK has a class and no reason: for one, that with the condition amqp:not-allowed. */
    static void notAllowed(String text, Action action) throws Exception {
        contains(text, raised(UnsupportedOperationException.class, action).getMessage());
    }

    static void contains(String part, String whole) {
        that(whole != null && whole.contains(part), "expected a text with \"" + part + "\", saw \"" + whole + "\"");
    }

    /** Insist on an exception of this class, thrown as such or as the cause of another one, and return it. */
    static <E extends Throwable> E raised(Class<E> kind, Action action) throws Exception {
        try {
            action.run();
        } catch (Throwable thrown) {
            return inside(kind, thrown);
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", and nothing was refused");
    }

    /** Return the exception of this class among one and its causes. */
    static <E extends Throwable> E inside(Class<E> kind, Throwable thrown) {
        for (Throwable one = thrown; one != null; one = one.getCause()) {
            if (kind.isInstance(one)) return kind.cast(one);
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", saw " + thrown, thrown);
    }

    /** Wait for something that happens behind the back of the SDK. */
    static void until(String what, BooleanSupplier isSo) throws InterruptedException {
        long deadline = System.nanoTime() + Visit.PATIENCE.toNanos();
        while (!isSo.getAsBoolean()) {
            that(System.nanoTime() < deadline, "waited in vain for " + what);
            Thread.sleep(10);
        }
    }

    static void pause(Duration duration) throws InterruptedException {
        Thread.sleep(duration.toMillis());
    }

    @FunctionalInterface
    interface Action {
        void run() throws Exception;
    }
}
