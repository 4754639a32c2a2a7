package kafka

// BatchSize is the most records that the consumer counts in one transaction.
const BatchSize = batchSize

// Exported for tests without a Kafka broker.
var (
	ToRecords = toRecords
	Keep      = keepActs
)
