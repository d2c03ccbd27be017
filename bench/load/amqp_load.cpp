// A load generator for AMQP 1.0 servers, on Qpid Proton C++: a client that shares no code with Tandem.
//
//   amqp_load send|recv|both URL ADDRESS COUNT BODY_BYTES [DURABLE=1] [CREDIT=500]
//
//   send   COUNT messages, as fast as the server grants credit, until each one is accepted
//   recv   COUNT messages over a window of CREDIT, each one accepted
//   both   the two at once, each on a connection and a thread of its own
//
// It authenticates with PLAIN if AMQP_USER and AMQP_PASSWORD are set, else with ANONYMOUS. The rate is printed as a
// sentence and then as one line of JSON. `tools/peers.sh` builds it into build/amqp_load.

#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/error_condition.hpp>
#include <proton/message.hpp>
#include <proton/message_id.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver_options.hpp>
#include <proton/sender.hpp>
#include <proton/tracker.hpp>
#include <proton/transport.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

struct Load {
    std::string mode;
    std::string url;
    std::string address;
    std::uint64_t count = 0;
    std::size_t body_bytes = 0;
    bool is_durable = true;
    int credit = 500;
};

double seconds_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration<double>(end - start).count();
}

proton::connection_options credentials() {
    proton::connection_options options;
    const char* user = std::getenv("AMQP_USER");
    const char* password = std::getenv("AMQP_PASSWORD");
    if (user && password)
        return options.user(user).password(password).sasl_allow_insecure_mechs(true).sasl_allowed_mechs("PLAIN");
    return options.sasl_allowed_mechs("ANONYMOUS");
}

// What sender and receiver have in common: one connection, on which no trouble passes unnoticed.
class Client : public proton::messaging_handler {
  public:
    explicit Client(const Load& load) : load_(load) {}

    // Runs until the work is done. Throws what went wrong before that.
    void run() {
        proton::container(*this).run();
        if (failure_.empty() && done_ != load_.count) failure_ = "the server closed the connection";
        if (!failure_.empty()) throw std::runtime_error(failure_ + " after " + std::to_string(done_) + " messages");
    }

    Clock::time_point started() const { return started_; }
    Clock::time_point finished() const { return finished_; }
    double seconds() const { return seconds_between(started_, finished_); }

    void on_container_start(proton::container& container) override { container.connect(load_.url, credentials()); }

    void on_error(const proton::error_condition& condition) override { failure_ = condition.what(); }

    // By default a lost connection is tried again for ever; here it is the end of the measurement.
    void on_transport_error(proton::transport& transport) override {
        failure_ = transport.error().what();
        transport.connection().close();
    }

  protected:
    void start_clock() {
        if (started_ == Clock::time_point()) started_ = Clock::now();
    }

    void count_one(proton::connection connection) {
        if (++done_ < load_.count) return;
        finished_ = Clock::now();
        connection.close();
    }

    void fail(const std::string& reason, proton::connection connection) {
        failure_ = reason;
        connection.close();
    }

    const Load& load_;

  private:
    std::uint64_t done_ = 0;
    std::string failure_;
    Clock::time_point started_;
    Clock::time_point finished_;
};

class SendingClient : public Client {
  public:
    explicit SendingClient(const Load& load) : Client(load) {
        message_.body(proton::binary(std::string(load.body_bytes, 'x')));
        message_.durable(load.is_durable);
    }

    void on_connection_open(proton::connection& connection) override { connection.open_sender(load_.address); }

    void on_sendable(proton::sender& sender) override {
        start_clock();
        for (; sender.credit() > 0 && sent_ < load_.count; ++sent_) {
            message_.id(proton::message_id(sent_));
            sender.send(message_);
        }
    }

    void on_tracker_accept(proton::tracker& tracker) override { count_one(tracker.connection()); }
    void on_tracker_reject(proton::tracker& tracker) override { fail("rejected", tracker.connection()); }
    void on_tracker_release(proton::tracker& tracker) override { fail("released", tracker.connection()); }

  private:
    proton::message message_;
    std::uint64_t sent_ = 0;
};

class ReceivingClient : public Client {
  public:
    using Client::Client;

    void on_connection_open(proton::connection& connection) override {
        connection.open_receiver(load_.address, proton::receiver_options().credit_window(load_.credit));
    }

    void on_message(proton::delivery& delivery, proton::message&) override {
        start_clock();
        delivery.accept();
        count_one(delivery.connection());
    }
};

// Seconds of the whole, and of its sending half if both halves ran.
struct Times {
    double seconds = 0;
    double send_seconds = 0;
};

Times run_both(const Load& load) {
    SendingClient sending(load);
    ReceivingClient receiving(load);
    std::exception_ptr receive_failure;
    std::thread receive_thread([&] {
        try {
            receiving.run();
        } catch (...) {
            receive_failure = std::current_exception();
        }
    });
    try {
        sending.run();
    } catch (const std::exception& failure) {
        // The receiver would wait for ever for what was never sent.
        std::cerr << "amqp_load: send: " << failure.what() << std::endl;
        std::_Exit(1);
    }
    receive_thread.join();
    if (receive_failure) std::rethrow_exception(receive_failure);
    return {seconds_between(sending.started(), receiving.finished()), sending.seconds()};
}

Times run(const Load& load) {
    if (load.mode == "both") return run_both(load);
    if (load.mode == "send") {
        SendingClient client(load);
        client.run();
        return {client.seconds(), 0};
    }
    ReceivingClient client(load);
    client.run();
    return {client.seconds(), 0};
}

void report(const Load& load, const Times& times) {
    const double rate = load.count / times.seconds;
    std::printf("%s %.0f msg/s", load.mode.c_str(), rate);
    if (times.send_seconds > 0) std::printf(" end to end (send %.0f)", load.count / times.send_seconds);
    std::printf("\n{\"mode\": \"%s\", \"count\": %llu, \"body_bytes\": %zu, \"durable\": %s, \"credit\": %d, ",
                load.mode.c_str(), static_cast<unsigned long long>(load.count), load.body_bytes,
                load.is_durable ? "true" : "false", load.credit);
    if (times.send_seconds > 0) std::printf("\"sends_per_second\": %.1f, ", load.count / times.send_seconds);
    std::printf("\"seconds\": %.6f, \"messages_per_second\": %.1f}\n", times.seconds, rate);
}

Load parse(int argument_count, char** arguments) {
    Load load;
    load.mode = arguments[1];
    load.url = arguments[2];
    load.address = arguments[3];
    load.count = std::stoull(arguments[4]);
    load.body_bytes = std::stoul(arguments[5]);
    if (argument_count > 6) load.is_durable = std::stoi(arguments[6]) != 0;
    if (argument_count > 7) load.credit = std::stoi(arguments[7]);
    if (load.mode != "send" && load.mode != "recv" && load.mode != "both")
        throw std::invalid_argument("mode must be send, recv or both, not " + load.mode);
    // A rate needs a first and a last message.
    if (load.count < 2 || load.credit < 1) throw std::invalid_argument("COUNT must be 2 or more, CREDIT 1 or more");
    return load;
}

}  // namespace

int main(int argument_count, char** arguments) {
    if (argument_count < 6 || argument_count > 8) {
        std::cerr << "usage: amqp_load send|recv|both URL ADDRESS COUNT BODY_BYTES [DURABLE=1] [CREDIT=500]\n";
        return 2;
    }
    try {
        const Load load = parse(argument_count, arguments);
        report(load, run(load));
    } catch (const std::exception& failure) {
        std::cerr << "amqp_load: " << failure.what() << std::endl;
        return 1;
    }
    return 0;
}
