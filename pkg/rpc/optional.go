package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Optional returns a pointer for an optional field of a message; nil for the zero value.
func Optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// Timestamp converts a time for a message; nil for the zero time.
func Timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
