package kafka

// BatchOf is batch, for tests that need no broker.
var BatchOf = batch
