package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"urr.guru/pkg/loop"
)

// MaxTransaction is DynamoDB's limit of items in one transaction.
const MaxTransaction = 100

// ReasonCode says why one item had its transaction cancelled; empty: this item is not the cause.
type ReasonCode string

// The codes that callers treat differently. Others, such as ValidationError, are faults of the
// request itself.
const (
	// ReasonCondition: the item's condition did not hold.
	ReasonCondition ReasonCode = "ConditionalCheckFailed"
	// ReasonConflict: another write of the same item was in progress; DynamoDB Local never reports it.
	ReasonConflict ReasonCode = "TransactionConflict"

	// The capacity of the table did not suffice.
	reasonThrottled  ReasonCode = "ThrottlingError"
	reasonThroughput ReasonCode = "ProvisionedThroughputExceeded"
)

// Reason says whether and why one item had its transaction cancelled.
type Reason struct {
	Code ReasonCode
	// Item is the stored item, for a failed condition with ReturnValuesOnConditionCheckFailure.
	Item    Item
	Message string // DynamoDB's text, for the log
}

// CanceledError is the error of a transaction that wrote nothing, with a reason for each of its
// items in their order.
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
func (e *CanceledError) Failed(i int) bool {
	return i >= 0 && i < len(e.Reasons) && e.Reasons[i].Code == ReasonCondition
}

// FirstInvalid returns the first item that can never be written as it is; ok is false when there is
// none.
func (e *CanceledError) FirstInvalid() (i int, ok bool) {
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
// condition did not hold, or another write was in progress. The caller reads them again and repeats
// its decision.
func Contended(err error) bool {
	var conflict *types.TransactionConflictException
	if ConditionFailed(err) || errors.As(err, &conflict) {
		return true
	}
	canceled, ok := Canceled(err)
	if !ok {
		return false
	}
	return canceled.preventedOnlyBy(nil, ReasonCondition, ReasonConflict)
}

const (
	repeatTries = 10
	repeatPause = 5 * time.Millisecond // by which the longest pause grows with each attempt
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

// Throttled reports whether a call failed, or a transaction was cancelled, only for lack of capacity,
// apart from conflicts. Some milliseconds later it may succeed.
func Throttled(err error) bool {
	if canceled, ok := Canceled(err); ok {
		return canceled.preventedOnlyBy([]ReasonCode{ReasonConflict}, reasonThrottled, reasonThroughput)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return true
	}
	return false
}

// Refused reports whether DynamoDB refused a call for a reason that lies in no item: a permission, a
// key or a table is missing, or the credentials are. Such a call may succeed once that is mended. A
// cancelled transaction and an invalid call are not Refused.
func Refused(err error) bool {
	var call *smithy.OperationError
	if !errors.As(err, &call) {
		return false
	}
	if _, canceled := Canceled(err); canceled || ConditionFailed(err) {
		return false
	}
	var api smithy.APIError
	return !errors.As(err, &api) || api.ErrorCode() != "ValidationException"
}

// ConflictsOnly reports whether the transaction was cancelled only by other writes in progress.
func (e *CanceledError) ConflictsOnly() bool { return e.preventedOnlyBy(nil, ReasonConflict) }

// preventedOnlyBy reports whether at least one item has one of the codes, and no item has a code
// that is neither among them nor tolerated.
func (e *CanceledError) preventedOnlyBy(tolerated []ReasonCode, codes ...ReasonCode) bool {
	found := false
	for _, r := range e.Reasons {
		switch {
		case slices.Contains(codes, r.Code):
			found = true
		case r.Code != "" && !slices.Contains(tolerated, r.Code):
			return false
		}
	}
	return found
}
