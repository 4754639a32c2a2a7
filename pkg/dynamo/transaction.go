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

// ReasonCode says why an item made its transaction fail. It is empty if this item is not the cause.
type ReasonCode string

// Codes that callers treat differently. Other codes, such as ValidationError, mean that the request
// itself is wrong.
const (
	// ReasonCondition: the item's condition did not hold.
	ReasonCondition ReasonCode = "ConditionalCheckFailed"
	// ReasonConflict: a transaction on the same item was in progress; DynamoDB Local never reports it.
	ReasonConflict ReasonCode = "TransactionConflict"

	// The table's capacity was not sufficient.
	reasonThrottled  ReasonCode = "ThrottlingError"
	reasonThroughput ReasonCode = "ProvisionedThroughputExceeded"
)

// Reason says whether and why one item of a transaction made it fail.
type Reason struct {
	Code ReasonCode
	// Item is the stored item, for a failed condition with ReturnValuesOnConditionCheckFailure.
	Item    Item
	Message string // DynamoDB's text, for the log
}

// CanceledError is the error of a transaction that wrote nothing. It has one Reason for each item
// of the transaction, in the same order.
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

// Failed reports whether the condition of item i of the transaction did not hold.
func (e *CanceledError) Failed(item int) bool {
	return item >= 0 && item < len(e.Reasons) && e.Reasons[item].Code == ReasonCondition
}

// FirstInvalid returns the first item that DynamoDB would always refuse; ok is false if there is
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

// Contended reports whether a write failed only because of the state of its items: a condition did
// not hold, or another write was in progress. The caller reads the items again and decides anew.
func Contended(err error) bool {
	var conflict *types.TransactionConflictException
	if ConditionFailed(err) || errors.As(err, &conflict) {
		return true
	}
	canceled, ok := Canceled(err)
	if !ok {
		return false
	}
	return canceled.hasOnlyReasons(nil, ReasonCondition, ReasonConflict)
}

const (
	repeatTries = 10
	repeatPause = 5 * time.Millisecond // the pause after attempt n is at most about n × this
)

// Repeat repeats an unconditional write while it fails with Contended, at most 10 times. Between
// attempts it pauses for some milliseconds, since other transactions on the item end soon.
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

// Throttled reports whether a call or transaction failed for lack of capacity, so that it may succeed
// some milliseconds later. A transaction may also have had conflicts with other writes, but no other
// reason to fail; conflicts alone are no throttling.
func Throttled(err error) bool {
	if canceled, ok := Canceled(err); ok {
		return canceled.hasOnlyReasons([]ReasonCode{ReasonConflict}, reasonThrottled, reasonThroughput)
	}
	var api smithy.APIError
	return errors.As(err, &api) && refusal(api.ErrorCode()) == refusedThrottled
}

// Refused reports whether DynamoDB refused a call for a reason outside its items: a permission, a
// key, a table or the credentials are missing. The call may succeed once an operator has fixed
// that. Cancelled transactions and invalid calls are not Refused.
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
func (e *CanceledError) ConflictsOnly() bool { return e.hasOnlyReasons(nil, ReasonConflict) }

// hasOnlyReasons reports whether at least one item failed with one of the codes, and no item with a
// code that is neither among them nor tolerated.
func (e *CanceledError) hasOnlyReasons(tolerated []ReasonCode, codes ...ReasonCode) bool {
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
