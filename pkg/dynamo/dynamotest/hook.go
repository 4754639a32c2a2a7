package dynamotest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Hook intercepts each attempt of a client's calls, so that a test can observe, delay or change the
// attempt, or lose its response. The SDK may make several attempts per call.
type Hook struct {
	// Before runs before an attempt. If it fails, nothing is sent, and the attempt fails too.
	Before func(in any) error
	// After runs when DynamoDB has answered, and may change the response. If After fails, the response
	// is lost and the attempt fails with its error.
	After func(in, out any) error
	// Answer replaces DynamoDB's response unless it returns nil.
	Answer func(in any) any
}

// ErrConnReset is the error of a lost connection. The SDK retries it unless retries are disabled.
var ErrConnReset error = &smithyhttp.RequestSendError{Err: errors.New("connection reset by peer")}

type inputKey struct{}

// Options is an option for making a client whose calls the hook intercepts. It shortens the SDK's
// pauses and removes the deadlines of calls, so that tests do not fail on a busy machine.
func (h Hook) Options(o *dynamodb.Options) {
	if o.Retryer != nil {
		o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, time.Millisecond)
	}
	o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
		return errors.Join(
			s.Initialize.Add(middleware.InitializeMiddlewareFunc("hook input", h.storeInput), middleware.Before),
			s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("hook", h.interceptAttempt), middleware.Before))
	})
}

func (Hook) storeInput(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	return next.HandleInitialize(middleware.WithStackValue(context.WithoutCancel(ctx), inputKey{}, in.Parameters), in)
}

func (h Hook) interceptAttempt(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
	middleware.DeserializeOutput, middleware.Metadata, error,
) {
	input := middleware.GetStackValue(ctx, inputKey{})
	if h.Before != nil {
		if err := h.Before(input); err != nil {
			return middleware.DeserializeOutput{}, middleware.Metadata{}, err
		}
	}
	if h.Answer != nil {
		if got := h.Answer(input); got != nil {
			return middleware.DeserializeOutput{Result: got}, middleware.Metadata{}, nil
		}
	}
	out, meta, err := next.HandleDeserialize(ctx, in)
	if err == nil && h.After != nil {
		err = h.After(input, out.Result)
	}
	return out, meta, err
}
