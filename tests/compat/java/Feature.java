/** One feature of an SDK: performs it at an entity of its own, and throws if anything differs from what it expects. */
@FunctionalInterface
interface Feature {
    void run(Visit visit) throws Exception;
}
