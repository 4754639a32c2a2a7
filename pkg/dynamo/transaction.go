package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/loop"
)

// MaxTransaction is DynamoDB's limit of items in one transaction.
const MaxTransaction = 100

// ReasonCode says why one item of a transaction prevented it; empty: this item did not.
type ReasonCode string

// The codes that callers treat differently. Others, such as ValidationError, are faults of the
// request itself.
const (
	// ReasonCondition: the item's condition did not hold.
	ReasonCondition ReasonCode = "ConditionalCheckFailed"
	// ReasonConflict: another write of the same item was in progress; DynamoDB Local never reports it.
	ReasonConflict ReasonCode = "TransactionConflict"
)

// The codes of an item that could not be written for lack of capacity.
const (
	reasonThrottled  ReasonCode = "ThrottlingError"
	reasonThroughput ReasonCode = "ProvisionedThroughputExceeded"
)

// Reason is the part of one item in the cancellation of a transaction.
type Reason struct {
	Code ReasonCode
	// Item is the stored item, for a failed condition with ReturnValuesOnConditionCheckFailure.
	Item Item
	// Message is DynamoDB's text, for the log.
	Message string
}

// CanceledError is a transaction that wrote nothing, with a reason for each of its items in their
// order.
type CanceledError struct {
	Reasons []Reason
	cause   error
}

// Canceled returns the reasons of a cancelled transaction; ok is false for any other error.
func Canceled(err error) (canceled *CanceledError, ok bool) {
	if errors.As(err, &canceled) {
		return canceled, true
	}
	var tx *types.TransactionCanceledException
	if !errors.As(err, &tx) {
		return nil, false
	}
	canceled = &CanceledError{cause: err, Reasons: make([]Reason, len(tx.CancellationReasons))}
	for i, r := range tx.CancellationReasons {
		code := ReasonCode(aws.ToString(r.Code))
		if code == "None" {
			code = ""
		}
		canceled.Reasons[i] = Reason{Code: code, Item: r.Item, Message: aws.ToString(r.Message)}
	}
	return canceled, true
}

func (e *CanceledError) Error() string {
	var parts []string
	for i, r := range e.Reasons {
		if r.Code != "" {
			parts = append(parts, fmt.Sprintf("item %d: %s", i, r.Code))
		}
	}
	return "transaction cancelled: " + strings.Join(parts, ", ")
}

func (e *CanceledError) Unwrap() error { return e.cause }

// Failed reports whether the condition of item i did not hold.
func (e *CanceledError) Failed(i int) bool { return e.code(i) == ReasonCondition }

func (e *CanceledError) code(i int) ReasonCode {
	if i < 0 || i >= len(e.Reasons) {
		return ""
	}
	return e.Reasons[i].Code
}

// Invalid returns the first item that can never be written as it is; ok is false when there is none.
func (e *CanceledError) Invalid() (i int, ok bool) {
	for i, r := range e.Reasons {
		switch r.Code {
		case "", ReasonCondition, ReasonConflict, reasonThrottled, reasonThroughput:
		default:
			return i, true
		}
	}
	return 0, false
}

// Contended reports whether the transaction failed only because of the state of its items: a
// condition did not hold, or another write was in progress. The caller reads again and decides anew.
func Contended(err error) bool {
	var conflict *types.TransactionConflictException
	if ConditionFailed(err) || errors.As(err, &conflict) {
		return true
	}
	canceled, ok := Canceled(err)
	if !ok {
		return false
	}
	contended := false
	for _, r := range canceled.Reasons {
		switch r.Code {
		case "":
		case ReasonCondition, ReasonConflict:
			contended = true
		default:
			return false
		}
	}
	return contended
}

const (
	// repeatTries and repeatPause bound the calls of Repeat, and the growth of the pause after each.
	repeatTries = 10
	repeatPause = 5 * time.Millisecond
)

// Repeat calls an unconditional write until it is not Contended, at most 10 times with pauses of
// some milliseconds: transactions that are writing the item end soon.
func Repeat(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		if try == repeatTries || !Contended(err) {
			return err
		}
		if !loop.Sleep(ctx, repeatPause/2+rand.N(time.Duration(try)*repeatPause)) { //nolint:gosec // jitter
			return ctx.Err()
		}
	}
}

// throttled reports whether a transaction was cancelled only for lack of capacity, apart from
// conflicts.
func throttled(err error) bool {
	canceled, ok := Canceled(err)
	if !ok {
		return false
	}
	found := false
	for _, r := range canceled.Reasons {
		switch r.Code {
		case "", ReasonConflict:
		case reasonThrottled, reasonThroughput:
			found = true
		default:
			return false
		}
	}
	return found
}

// ConflictsOnly reports whether nothing but other writes in progress prevented the transaction.
func (e *CanceledError) ConflictsOnly() bool {
	found := false
	for _, r := range e.Reasons {
		switch r.Code {
		case "":
		case ReasonConflict:
			found = true
		default:
			return false
		}
	}
	return found
}
