package kafka

import (
	"time"

	"urr.guru/pkg/kafka"
	"urr.guru/services/stats/internal/figures"
)

// For tests that need no broker.
var (
	BatchSince    = batch
	ToReservation = toReservation
	ToPayment     = toPayment
)

// BatchOf is a batch of records all of which the inbox remembers.
func BatchOf(recs []kafka.Record) figures.Batch { return batch(recs, time.Time{}) }
