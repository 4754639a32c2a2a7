package kafka

// BatchSize is the largest batch of the consumer.
const BatchSize = batchSize

// For tests that need no broker.
var (
	ToRecords = toRecords
	Keep      = keepActs
)
