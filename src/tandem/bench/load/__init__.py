"""Load on brokers that speak AMQP, by Tandem's own driver."""
