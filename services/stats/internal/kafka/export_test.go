package kafka

// BatchSize is the largest batch of the consumer.
const BatchSize = batchSize

// Exported for tests without a Kafka broker.
var (
	ToRecords = toRecords
	Keep      = keepActs
)
