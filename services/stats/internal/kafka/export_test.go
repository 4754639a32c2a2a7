package kafka

// For tests that need no broker.
var (
	ToRecords     = toRecords
	ToReservation = toReservation
	ToPayment     = toPayment
	ToReward      = toReward
)
